package graph

import "testing"

func TestRangeInWhichNothingIs(t *testing.T) {
	t.Parallel()
	for glob, bad := range map[string]bool{
		"a": false, "[a-z]": false, "[^a-z]x": false, "[a-a]": false, "z-a": false, "[xz]-a": false, `[\\]-a]`: false, `\[z-a`: false, "[a-cz]-a": false,
		"[z-a]": true, "[^z-a]": true, "[a-zb-a]": true, "dir/x[9-0]*": true, `[\]-\[]`: true, "[é-a]": true, "[a][z-a]": true,
	} {
		if why := badGlob(glob); (why != "") != bad {
			t.Errorf("%s: %q", glob, why)
		}
	}
}
