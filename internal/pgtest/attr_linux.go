package pgtest

import "syscall"

// mortal makes a server's process end at once, without a trace in its tables, when the thread that starts it ends.
func mortal(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGQUIT }
