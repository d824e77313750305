package main

import (
	"os"
	"os/signal"
	"syscall"
)

// interrupts are the signals that interrupt a run. SIGHUP is none where somebody has it ignored, as nohup does.
func interrupts() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// endAt ends the process with the code at one of the signals, until it is told that others see to them.
func endAt(code int, list ...os.Signal) (others func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, list...)
	over := make(chan struct{})
	go func() {
		select {
		case <-signals:
			os.Exit(code)
		case <-over:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(over)
	}
}
