package top

import (
	"context"
	"fmt"
	"io"

	"github.com/admitd/admitd/status"
)

// shapes prints the shapes that took most of each ingress's backend, once.
func shapes(ctx context.Context, out io.Writer, r *statusReader, only string) error {
	d, err := r.read(ctx)
	if err != nil {
		return err
	}
	for i := range d.Ingresses {
		if in := &d.Ingresses[i]; only == "" || in.Name == only {
			if err := writeShapes(out, in); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeShapes prints those of one ingress.
func writeShapes(out io.Writer, in *status.Ingress) error {
	if len(in.Shapes) == 0 {
		_, err := fmt.Fprintf(out, "%s: no shapes; cost.shapes.learn has them learned\n", in.Name)
		return err
	}
	if _, err := fmt.Fprintf(out, "%s\n%6s %8s %7s %9s %9s  %s\n", in.Name, "SHARE", "MEAN", "COST", "ENDED", "REFUSED", "SHAPE"); err != nil {
		return err
	}
	for i := range in.Shapes {
		s := &in.Shapes[i]
		_, err := fmt.Fprintf(out, "%5.1f%% %8s %7.2f %9d %9d  %s\n",
			100*s.Share, milliseconds(s.MeanMS), s.Cost, s.Ended, s.Refused, printable(s.Name))
		if err != nil {
			return err
		}
	}
	return nil
}
