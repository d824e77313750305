package main

import _ "time/tzdata" // A schedule's time zone is known also where the system has no zones, as in most containers.
