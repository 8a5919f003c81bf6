package main

import (
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

// A smaller terminal shows the part of the screen around the cursor, and says so.
func TestPicture(t *testing.T) {
	screen := protocol.ProcessScreenResult{Rows: 6, Cols: 10}
	for _, line := range []string{"0123456789", "漢字漢字漢", "abcdefghij", "", "e\u0301e\u0301e\u0301xyz", "last"} {
		screen.Spans = append(screen.Spans, []protocol.Span{{Text: line}})
	}
	for _, tt := range []struct {
		rows, cols, row, col uint16
		want                 string
		atRow, atCol         int
	}{
		{6, 10, 5, 9, "0123456789|漢字漢字漢|abcdefghij||e\u0301e\u0301e\u0301xyz|last", 5, 9},
		{8, 12, 0, 0, "0123456789|漢字漢字漢|abcdefghij||e\u0301e\u0301e\u0301xyz|last||", 0, 0},
		{4, 5, 0, 0, "01234|漢字 |abcde|NOTE", 0, 0},
		{4, 5, 0, 9, "56789| 字漢|fghij|NOTE", 0, 4},
		{4, 10, 5, 0, "|e\u0301e\u0301e\u0301xyz|last|NOTE", 2, 0},
		{1, 4, 2, 6, "efgh", 0, 2},
		{2, 10, 4, 0, "|e\u0301e\u0301e\u0301xyz", 1, 0},
	} {
		screen.Cursor.Row, screen.Cursor.Col = tt.row, tt.col
		rows, row, col := picture(&screen, protocol.Size{Rows: tt.rows, Cols: tt.cols})
		for i, text := range rows {
			if strings.HasPrefix(text, "\x1b[0;7m") {
				rows[i] = "NOTE"
			}
		}
		if got := strings.Join(rows, "|"); got != tt.want || row != tt.atRow || col != tt.atCol {
			t.Errorf("%d×%d, cursor %d,%d: %q, cursor %d,%d; want %q, %d,%d", tt.rows, tt.cols, tt.row, tt.col, got, row, col, tt.want, tt.atRow, tt.atCol)
		}
	}
}
