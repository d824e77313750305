package depot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/headrace/headrace/job"
)

// What is in the folder of a job, N being the number of an attempt:
//
//	N.log        the log, as it is written
//	N.times      when it came in
//	N.zst        the log, sealed: zstd, with the times; when this is there, the two above do not count
//	N.done       the log, sealed but as it was, because compressed it would be larger; N.times stays
//	N.tmp        a file in the making, which counts nothing
//	N.files/     artifacts: index, which says what is kept, and contents by sums of their names; what the index does not
//	             name is an upload that is not complete
const (
	extLog   = ".log"
	extTimes = ".times"
	extZstd  = ".zst"
	extDone  = ".done"
	extTmp   = ".tmp"
	extFiles = ".files"

	extGone   = ".gone" // of a job's folder: it is being removed
	indexName = "index"
	lockName  = "lock"
)

// shelf is the folder in which the folder of a job is: named by the last two digits of its id, so that none grows without
// bound.
func shelf(id job.ID) string { return hex.EncodeToString(id[15:]) }

func jobDir(id job.ID) string { return shelf(id) + "/" + id.String() }

// place is a file of an attempt.
func (a Attempt) place(ext string) string {
	return jobDir(a.Job) + "/" + strconv.FormatInt(int64(a.Number), 10) + ext
}

// parseEntry takes the name of what is in a job's folder apart.
func parseEntry(name string) (number int32, ext string, ok bool) {
	ext = path.Ext(name)
	n, err := strconv.ParseInt(strings.TrimSuffix(name, ext), 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10)+ext != name {
		return 0, "", false
	}
	return int32(n), ext, true
}

// isShelf reports whether this is the name of a folder of jobs.
func isShelf(name string) bool {
	b, err := hex.DecodeString(name)
	return err == nil && len(b) == 1 && strings.ToLower(name) == name
}

// parseJob reads the name of a job's folder on its shelf.
func parseJob(onShelf, name string) (id job.ID, ok bool) {
	id, err := job.ParseID(name)
	return id, err == nil && id.String() == name && shelf(id) == onShelf
}

// nameKey stands for the name of an artifact: no name from outside reaches the file system.
func nameKey(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:20])
}

// contentName is where the content of an artifact lies, from its first byte on. It tells what was declared.
func contentName(key string, u Upload) string { return fmt.Sprintf("%s.%x.%d", key, u.Sum, u.Size) }

// parseContent reads what contentName writes; the name itself it cannot know.
func parseContent(name string) (key string, u Upload, ok bool) {
	fields := strings.Split(name, ".")
	if len(fields) != 3 || len(fields[0]) != 40 || len(fields[1]) != 2*len(u.Sum) {
		return "", Upload{}, false
	}
	if _, err := hex.Decode(u.Sum[:], []byte(fields[1])); err != nil {
		return "", Upload{}, false
	}
	var err error
	u.Size, err = strconv.ParseInt(fields[2], 10, 64)
	if err != nil || u.Size < 0 || contentName(fields[0], u) != name {
		return "", Upload{}, false
	}
	return fields[0], u, true
}
