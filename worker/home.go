package worker

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

// Home is the folder of a worker of a server: who the worker is, which sessions of it may still be open, and a journal of the attempts that
// it has. One process at a time has it; so whoever has it knows that the one before is dead, and can say so to the server.
//
// What is journaled is on disk before it counts: an attempt before it begins, its end before it is told. Each attempt has a file of
// its own, that is replaced as a whole. The folder is for its user alone, as the journal has the tokens of leases.
type Home struct {
	dir   string
	lock  *os.File
	owner string

	mu       sync.Mutex
	identity identity
	shipping map[job.Lease]bool // logs that are not shipped yet
	told     map[job.Lease]bool // their attempts need not be told any more
}

// identity is what worker.json holds.
type identity struct {
	Name string `json:"name"`
	// ID tells this folder apart from all others, wherever it is moved.
	ID string `json:"id"`
	// Sessions are those that were not seen to be over.
	Sessions []job.ID `json:"sessions,omitempty"`
}

// Names in the folder.
const (
	lockFile     = "lock"
	identityFile = "worker.json"
	journalDir   = "attempts"
	logsDir      = "logs"
)

// HomeHeldError says that another process has the folder.
type HomeHeldError struct {
	Dir string
	PID int // 0: not known
}

// Error says what the reader can do.
func (e *HomeHeldError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("folder %s: another worker has it", e.Dir)
	}
	return fmt.Sprintf("folder %s: a worker is at work there, process %d; stop it, or give this one another name", e.Dir, e.PID)
}

// OpenHome takes the folder of a worker, and makes it if it is not there. *HomeHeldError: another process has it.
func OpenHome(dir, name string) (_ *Home, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("worker's folder: %v", err)
	}
	for _, d := range []string{dir, filepath.Join(dir, journalDir), filepath.Join(dir, logsDir)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("worker's folder: %v", err)
		}
	}
	h := &Home{dir: dir, shipping: map[job.Lease]bool{}, told: map[job.Lease]bool{}}
	if h.lock, err = lockHome(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = h.lock.Close() // The first error tells more.
		}
	}()
	if err := h.readIdentity(name); err != nil {
		return nil, err
	}
	h.owner, err = ownerOf(dir, h.identity.ID)
	return h, err
}

// lockPatience is how long a lock may outlive its process: one that is killed while it starts another program has given that a copy,
// which lasts until the program begins.
const lockPatience = 2 * time.Second

func lockHome(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("worker's folder: %v", err)
	}
	for until := time.Now().Add(lockPatience); ; <-time.After(2 * time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		note := make([]byte, 32)
		n, _ := f.ReadAt(note, 0) // An empty note names nobody.
		pid, _ := strconv.Atoi(strings.TrimSpace(string(note[:n])))
		if pid <= 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || time.Now().After(until) {
			_ = f.Close() // Nothing was written.
			return nil, &HomeHeldError{Dir: dir, PID: pid}
		}
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	}
	if err != nil {
		_ = f.Close() // As above.
		return nil, fmt.Errorf("lock folder %s: %v", dir, err)
	}
	return f, nil
}

func (h *Home) readIdentity(name string) error {
	text, err := os.ReadFile(filepath.Join(h.dir, identityFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		h.identity = identity{Name: name, ID: rand.Text()}
		return h.writeIdentity()
	case err != nil:
		return fmt.Errorf("worker's folder: %v", err)
	}
	if err := json.Unmarshal(text, &h.identity); err != nil || h.identity.ID == "" {
		return fmt.Errorf("folder %s: %s is damaged; remove the folder, and what the worker had is given up when its leases run out", h.dir, identityFile)
	}
	if h.identity.Name != name {
		return fmt.Errorf("folder %s: it is that of worker %q, not of %q", h.dir, h.identity.Name, name)
	}
	return nil
}

func (h *Home) writeIdentity() error {
	text, err := json.Marshal(h.identity)
	if err != nil {
		return err
	}
	return replace(filepath.Join(h.dir, identityFile), append(text, '\n'))
}

// ownerOf names whose the processes are. A copy of the folder is another one, as it may be at work beside.
func ownerOf(dir, id string) (string, error) {
	fi, err := os.Stat(dir)
	if err != nil {
		return "", fmt.Errorf("worker's folder: %v", err)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		id = fmt.Sprintf("%d:%d:%s", st.Dev, st.Ino, id)
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16]), nil
}

// Owner is whose the processes of its attempts are, for Executor.Owner and Reap.
func (h *Home) Owner() string { return h.owner }

// Logs is the folder of logs.
func (h *Home) Logs() string { return filepath.Join(h.dir, logsDir) }

// Dir is the folder itself.
func (h *Home) Dir() string { return h.dir }

// Close gives the folder up.
func (h *Home) Close() error {
	// Also where a program that this process is just starting has a copy of the open file.
	return errors.Join(syscall.Flock(int(h.lock.Fd()), syscall.LOCK_UN), h.lock.Close())
}

// sessions lists those that may still be open.
func (h *Home) sessions() []job.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.identity.Sessions)
}

// begin notes a session before the server hears of it.
func (h *Home) begin(session job.ID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Contains(h.identity.Sessions, session) {
		return nil
	}
	h.identity.Sessions = append(h.identity.Sessions, session)
	return h.writeIdentity()
}

// over notes that a session is over.
func (h *Home) over(session job.ID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.identity.Sessions = slices.DeleteFunc(h.identity.Sessions, func(s job.ID) bool { return s == session })
	return h.writeIdentity()
}

// record is the file of an attempt: its lease, and once it has ended how.
func (h *Home) record(l job.Lease) string {
	return filepath.Join(h.dir, journalDir, fmt.Sprintf("%s.%d.json", l.Job, l.Attempt))
}

// logOf is the log of an attempt.
func (h *Home) logOf(l job.Lease) string { return filepath.Join(h.Logs(), LogPath(l.Job, l.Attempt)) }

// took journals an attempt before it begins.
func (h *Home) took(l job.Lease) error { return h.put(&api.Finished{Lease: wireLease(l)}) }

// ended journals the end of an attempt before it is told.
func (h *Home) ended(r *job.Report) error {
	f := wireReport(r)
	return h.put(&f)
}

func (h *Home) put(f *api.Finished) error {
	text, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("journal of attempts: %v", err)
	}
	return replace(h.record(job.Lease{Job: f.Job, Attempt: f.Attempt}), append(text, '\n'))
}

// ship says that the attempt has a log to be shipped: until shipped is called it is kept.
func (h *Home) ship(l job.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shipping[l] = true
}

// shipped says that nothing more of the log is to be shipped.
func (h *Home) shipped(l job.Lease) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.shipping, l)
	if !h.told[l] {
		return nil
	}
	delete(h.told, l)
	return h.forget(l)
}

// tell says that the attempt need not be told any more. What remains of it goes once its log is shipped.
func (h *Home) tell(l job.Lease) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shipping[l] {
		h.told[l] = true
		return nil
	}
	return h.forget(l)
}

// forget needs no sync: what comes back is told once more, and that does no harm.
func (h *Home) forget(l job.Lease) error {
	log := h.logOf(l)
	for _, path := range []string{log, h.record(l)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("worker's folder: %v", err)
		}
	}
	_ = os.Remove(filepath.Dir(log)) // It goes if it is empty.
	return nil
}

// left lists the attempts that the journal has: Outcome is "" of those whose end is not known. Files that are no such records
// are set aside, and named in notes.
func (h *Home) left() (list []api.Finished, notes []string, err error) {
	dir := filepath.Join(h.dir, journalDir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("journal of attempts: %v", err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case strings.HasSuffix(e.Name(), newSuffix): // It never counted.
			err = os.Remove(path)
		case strings.HasSuffix(e.Name(), ".json"):
			var f api.Finished
			if f, err = readRecord(path); err == nil {
				list = append(list, f)
				break
			}
			notes = append(notes, fmt.Sprintf("%s: %v", e.Name(), err))
			err = os.Rename(path, path+".bad")
		}
		if err != nil {
			return nil, notes, fmt.Errorf("journal of attempts: %v", err)
		}
	}
	return list, notes, nil
}

func readRecord(path string) (api.Finished, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return api.Finished{}, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	var f api.Finished
	if err := d.Decode(&f); err != nil {
		return f, err
	}
	if _, err := leaseOf(&f.Lease); err != nil {
		return f, err
	}
	if f.Outcome == "" {
		return f, nil
	}
	_, err = reportOf(&f)
	return f, err
}

// newSuffix ends the name of a file that is being written.
const newSuffix = ".new"

// replace makes or replaces a file as a whole: whatever happens, the old or the new text is there, and once it returns the new one.
func replace(path string, text []byte) error {
	f, err := os.OpenFile(path+newSuffix, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %v", path, err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(path+newSuffix, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %v", path, err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close() // Only read from.
	return d.Sync()
}
