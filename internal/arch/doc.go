// Package arch keeps the plan of the house: which room may import which, and a
// few habits that no linter knows. But for what its tests share with the program
// that measures figures it holds tests only.
package arch

import "go/ast"

// Receiver returns the name of the type of a method, of which e is the receiver's
// type; "" when it cannot be one.
func Receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return Receiver(e.X)
	case *ast.IndexExpr:
		return Receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
