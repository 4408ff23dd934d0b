package postgresgate

// ParseStatement opens parseStatement: the operation's name and how many
// statements there are.
func ParseStatement(text []byte) (op string, n int) {
	s := parseStatement(text)
	return s.op.String(), s.n
}
