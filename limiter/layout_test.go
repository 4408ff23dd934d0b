package limiter_test

import (
	"testing"
	"unsafe"

	"github.com/admitd/admitd/limiter"
)

// What every request reads and writes of its partition lies on one cache line, what a
// policy says to most requests on another, and what a refusal counts beside what it
// answers. Fields that somebody adds in between cost each decision a line. The
// addresses are real ones, since the runtime puts a word before objects of this size.
func TestOneLine(t *testing.T) {
	const cacheLine = 64
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("fields are laid out for 64-bit machines")
	}
	sameLine := func(pair [2]unsafe.Pointer) bool { return uintptr(pair[0])/cacheLine == uintptr(pair[1])/cacheLine }
	together, apart := limiter.Neighbors()
	for name, pair := range together {
		if !sameLine(pair) {
			t.Errorf("%s lie on two cache lines, %d bytes apart", name, uintptr(pair[1])-uintptr(pair[0]))
		}
	}
	for name, pair := range apart {
		if sameLine(pair) {
			t.Errorf("%s lie on one cache line: a flood that is refused on one processor slows down who is admitted on others", name)
		}
	}
}
