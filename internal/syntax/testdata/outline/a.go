package a

// A is a thing.
// It has fields.
type A struct {
	a, b int
	C
}

// M does it.
func (a *A[T]) M(x int,
	y interface{}) (string, error) {
	var local = 1
	return "", nil
}

type I interface {
	F() error
}

const (
	X, Y = 1, 2
)

var z = map[string]int{
	"a": 1,
}

type P = int

func main() {}
