package worker

import "testing"

func TestMachineIsTold(t *testing.T) {
	t.Parallel()
	m := machineNow(0, t.TempDir())
	if m == nil || m.Memory <= 0 || m.MemoryFree <= 0 || m.MemoryFree > m.Memory || m.Disk <= 0 || m.DiskFree > m.Disk || m.Load < 0 {
		t.Errorf("%+v", m)
	}
	if m := machineNow(1_000_000, t.TempDir()); m.Load != 0 {
		t.Errorf("load %v besides a million attempts", m.Load)
	}
}
