// Package target knows what the target of a request ([Of]) means: which operation its
// path is ([Operations]), whether gate and backend may read it in two ways
// ([IsClear]), what it has in common with others ([Form], [Family]), and what its
// query holds ([Value]). It is pure, and knows nothing of limits.
package target
