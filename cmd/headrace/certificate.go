package main

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is a chain and its key in two files, which may be replaced while it is served.
type certificate struct {
	chain, key string // paths
	log        *slog.Logger

	mu     sync.Mutex
	kept   *tls.Certificate
	stamp  [2]time.Time // of the files, as they were read
	looked time.Time
}

// lookAgain is how long a certificate is served without a look at its files.
const lookAgain = time.Second

// get gives the certificate that the files hold now, or the last one that was good.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.kept != nil && now.Sub(c.looked) < lookAgain {
		return c.kept, nil
	}
	c.looked = now
	stamp, err := c.stamps()
	if err == nil && (c.kept == nil || stamp != c.stamp) {
		var fresh tls.Certificate
		if fresh, err = tls.LoadX509KeyPair(c.chain, c.key); err == nil {
			if c.kept != nil {
				c.log.Info("the certificate was replaced")
			}
			c.kept, c.stamp = &fresh, stamp
		}
	}
	if err != nil {
		// Of two files one may have been written, and the other not yet.
		c.log.Warn("the certificate cannot be read; the one before is served", "err", err)
	}
	if c.kept == nil {
		return nil, err
	}
	return c.kept, nil
}

func (c *certificate) stamps() (stamp [2]time.Time, err error) {
	for i, path := range []string{c.chain, c.key} {
		info, serr := os.Stat(path)
		if err = errors.Join(err, serr); serr == nil {
			stamp[i] = info.ModTime()
		}
	}
	return stamp, err
}
