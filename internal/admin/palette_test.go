package admin_test

import (
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/limiter"
)

// colour is one in linear RGB, 0 to 1.
type colour [3]float64

// Colours that stand beside each other in the chart of requests are told apart,
// by who sees all colours and by who does not see red or green, in light and in
// dark. Admitted against queue timeout was 6.6 apart in the dark with
// deuteranopia.
func TestColoursAreToldApart(t *testing.T) {
	s := newServer(t, newDaemon(&limiter.Policy{}), admin.Options{})
	css := call{method: http.MethodGet, path: "/page.css"}.do(t, s).Body.String()
	names := []string{"--c-admitted", "--c-failed"}
	for i := range 7 {
		names = append(names, fmt.Sprintf("--r%d", i))
	}
	eyes := map[string]struct {
		sees  func(colour) colour
		apart float64 // CIEDE2000
	}{
		"all colours":  {func(c colour) colour { return c }, 18},
		"deuteranopia": {deuteranopia, 13},
		"protanopia":   {protanopia, 11},
	}
	for theme, scheme := range []string{"light", "dark"} {
		card := declared(t, css, "--card")[theme]
		for name, eye := range eyes {
			for i, a := range names {
				ca := declared(t, css, a)[theme]
				if got := contrast(ca, card); got < 3 {
					t.Errorf("%s, %s: contrast %.1f with the card; want 3", scheme, a, got)
				}
				for _, b := range names[:i] {
					cb := declared(t, css, b)[theme]
					if d := difference(lab(eye.sees(ca)), lab(eye.sees(cb))); d < eye.apart {
						t.Errorf("%s, %s: %s and %s are %.1f apart; want %.0f", scheme, name, a, b, d, eye.apart)
					}
				}
			}
		}
	}
}

// declared reads the light and the dark value of a property.
func declared(t *testing.T, css, name string) (c [2]colour) {
	t.Helper()
	m := regexp.MustCompile(regexp.QuoteMeta(name) + `: light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\);`).FindStringSubmatch(css)
	if m == nil {
		t.Fatalf("page.css does not declare %s for light and dark", name)
	}
	for i := range c {
		rgb, err := strconv.ParseUint(m[i+1], 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		for k := range c[i] {
			v := float64(rgb>>(16-8*k)&0xff) / 255
			if v <= 0.04045 {
				v /= 12.92
			} else {
				v = math.Pow((v+0.055)/1.055, 2.4)
			}
			c[i][k] = v
		}
	}
	return c
}

func mix(c colour, m [3]colour) (out colour) {
	for i := range out {
		for k := range c {
			out[i] += m[i][k] * c[k]
		}
		out[i] = min(max(out[i], 0), 1)
	}
	return out
}

// deuteranopia and protanopia are what who lacks green or red cones sees, after
// Machado, Oliveira and Fernandes (2009).
func deuteranopia(c colour) colour {
	return mix(c, [3]colour{{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}})
}

func protanopia(c colour) colour {
	return mix(c, [3]colour{{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}})
}

// contrast is the ratio of WCAG 2.
func contrast(a, b colour) float64 {
	l := func(c colour) float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] + 0.05 }
	return max(l(a), l(b)) / min(l(a), l(b))
}

// lab is the colour in CIELAB under D65.
func lab(c colour) [3]float64 {
	f := func(v float64) float64 {
		if v > 216.0/24389 {
			return math.Cbrt(v)
		}
		return (24389.0/27*v + 16) / 116
	}
	x := f((0.4124564*c[0] + 0.3575761*c[1] + 0.1804375*c[2]) / 0.95047)
	y := f(0.2126729*c[0] + 0.7151522*c[1] + 0.0721750*c[2])
	z := f((0.0193339*c[0] + 0.1191920*c[1] + 0.9503041*c[2]) / 1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// difference is CIEDE2000.
func difference(a, b [3]float64) float64 {
	const rad = math.Pi / 180
	pow7 := func(v float64) float64 { return math.Sqrt(math.Pow(v, 7) / (math.Pow(v, 7) + math.Pow(25, 7))) }
	g := 0.5 * (1 - pow7((math.Hypot(a[1], a[2])+math.Hypot(b[1], b[2]))/2))
	a1, b1 := a[1]*(1+g), b[1]*(1+g)
	ca, cb := math.Hypot(a1, a[2]), math.Hypot(b1, b[2])
	hue := func(y, x float64) float64 { return math.Mod(math.Atan2(y, x)/rad+360, 360) }
	ha, hb := hue(a[2], a1), hue(b[2], b1)
	dh, hm := hb-ha, (ha+hb)/2
	if math.Abs(dh) > 180 {
		dh -= math.Copysign(360, dh)
		hm = math.Mod(hm+180, 360)
	}
	dH := 2 * math.Sqrt(ca*cb) * math.Sin(dh/2*rad)
	lm, cm := (a[0]+b[0])/2, (ca+cb)/2
	cos := func(deg float64) float64 { return math.Cos(deg * rad) }
	t := 1 - 0.17*cos(hm-30) + 0.24*cos(2*hm) + 0.32*cos(3*hm+6) - 0.20*cos(4*hm-63)
	sl := 1 + 0.015*(lm-50)*(lm-50)/math.Sqrt(20+(lm-50)*(lm-50))
	l, c, h := (b[0]-a[0])/sl, (cb-ca)/(1+0.045*cm), dH/(1+0.015*cm*t)
	turn := -math.Sin(60*rad*math.Exp(-(hm-275)*(hm-275)/625)) * 2 * pow7(cm)
	return math.Sqrt(l*l + c*c + h*h + turn*c*h)
}

// The formula agrees with pairs of the reference data by Sharma, Wu and Dalal.
func TestColourDifference(t *testing.T) {
	for _, tc := range []struct {
		a, b [3]float64
		want float64
	}{
		{[3]float64{50, 2.6772, -79.7751}, [3]float64{50, 0, -82.7485}, 2.0425},
		{[3]float64{50, 2.5, 0}, [3]float64{73, 25, -18}, 27.1492},
		{[3]float64{60.2574, -34.0099, 36.2677}, [3]float64{60.4626, -34.1751, 39.4387}, 1.2644},
		{[3]float64{90.8027, -2.0831, 1.4410}, [3]float64{91.1528, -1.6435, 0.0447}, 1.4441},
	} {
		if got := difference(tc.a, tc.b); math.Abs(got-tc.want) > 1e-4 {
			t.Errorf("difference(%v, %v) = %.4f; want %.4f", tc.a, tc.b, got, tc.want)
		}
	}
}
