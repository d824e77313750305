package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/headrace/headrace/api"
	"github.com/headrace/headrace/job"
)

// Outpost is a worker whose queue is in a server elsewhere: a Runtime that runs commands, the Remote that is its Source, and the Shipper
// of its logs.
type Outpost struct {
	Client *api.Client
	Home   *Home
	// Worker says who this is and what it can, but for Kinds; Session must be set.
	Worker   job.Worker
	Executor Executor // Owner is filled in.
	// Most is after how many attempts it drains by itself; 0: never.
	Most int
	// Version is that of this program; Outdated is called, once, if the server would have another one; nil: it does not matter.
	Version  string
	Outdated func(wanted string)
	// Log gets one line a transition; nil: none.
	Log *slog.Logger
	// Line sees each line that a job writes, and must not block; nil: nobody does.
	Line func(*Attempt, Line)
}

// farewell is how long, once it is told to stop, an outpost tries to tell the end of an attempt: the next process can do so, too.
const farewell = 10 * time.Second

// Run works until ctx or drain ends, as Runtime.Run says, and until what its jobs wrote is at the server, if that does not take long.
// It gives the error for which the server refuses this worker: see Remote.Run. What an earlier process left it kills, and hands back.
func (o *Outpost) Run(ctx, drain context.Context) error {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	killed, err := Reap(o.Home.Owner())
	if err != nil {
		return err
	}
	if killed > 0 {
		log.Warn("killed what an earlier process left", "processes", killed)
	}
	reach := &Reach{}
	remote := NewRemote(RemoteConfig{Client: o.Client, Home: o.Home, Version: o.Version, Outdated: o.Outdated, Log: log, Reach: reach})
	shipper := &Shipper{Client: o.Client, Home: o.Home, Log: log, Reach: reach}
	executor := o.Executor
	executor.Owner = o.Home.Owner()
	commands := Commands(executor, o.Home.Logs(), func(a *Attempt, l Line) {
		shipper.Grew(a)
		if o.Line != nil {
			o.Line(a, l)
		}
	})
	runtime := &Runtime{
		Source: remote, Worker: o.Worker, Handlers: map[string]Handler{CommandKind: shipper.Handler(commands)}, Log: log,
		Most: o.Most, Farewell: farewell,
	}

	whole := context.WithoutCancel(ctx)
	shipping, endShipping := context.WithCancel(whole)
	speaking, endSpeaking := context.WithCancel(whole)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer endShipping()
	parts.Go(func() { shipper.Run(shipping) })
	if err := shipper.Inherit(ctx); err != nil {
		endSpeaking()
		return err
	}
	refused := make(chan error, 1)
	parts.Go(func() { refused <- remote.Run(speaking) })
	err = runtime.Run(ctx, drain)
	endSpeaking()
	if refusal := <-refused; refusal != nil {
		err = refusal
	}
	shipper.Settle(whole)
	return err
}
