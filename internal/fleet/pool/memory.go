package pool

import (
	"maps"
	"slices"
)

// Memory is a notice board in memory, for simulations: what the script does in
// Redis. It is not safe for concurrent use.
type Memory struct {
	rows    map[string]noted
	leader  string
	fence   uint64
	until   int64
	verdict Verdict
}

type noted struct {
	row  Row
	ends int64
}

// Exchange puts a gate's row on the board at now, for so long, and a verdict if
// there is one, and returns what stands there. Who asks first when nobody leads
// is the leader.
func (m *Memory) Exchange(now, life int64, row Row, write *Verdict) Board {
	if m.rows == nil {
		m.rows = map[string]noted{}
	}
	m.rows[row.ID] = noted{row, now + life}
	if m.leader != row.ID && now >= m.until {
		m.leader, m.fence = row.ID, m.fence+1
	}
	leads := m.leader == row.ID
	if leads {
		m.until = now + life
	}
	if write != nil && leads && write.Fence == m.fence {
		m.verdict = *write
	}
	b := Board{Leads: leads, Fence: m.fence, Verdict: m.verdict, Turn: int(now / life)}
	for _, id := range slices.Sorted(maps.Keys(m.rows)) {
		if m.rows[id].ends > now {
			b.Rows = append(b.Rows, m.rows[id].row)
		}
	}
	return b
}
