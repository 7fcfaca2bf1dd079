package spend

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/pattern"
)

//go:embed prices.yaml
var embedded []byte

// MaxBook bounds a price file, in bytes.
const MaxBook = 64 << 10

// Price is what a million tokens cost, in millionths of a US dollar.
type Price struct {
	Input, Output, CacheRead, CacheWrite, CacheWrite1h int64
}

// Model is one row of the table.
type Model struct {
	Price
	Long      *Price // for all of a request whose prompt has more tokens than LongAbove; nil: no other price
	LongAbove int64
	MaxOutput int64  // tokens; 0: not known, requests must say
	Context   int64  // tokens of input and output together; 0: not known
	Image     int64  // the most tokens of one image; 0: images are refused
	Hidden    string // it thinks where nobody sees it: "true", "asked" (where the request asks for thinking), "" (never)
}

// Call is one API at some paths. Name is the dialect that it speaks.
type Call struct {
	Name  string
	Hosts []string
	Paths []string
	Free  []string // calls that cost nothing, like counting tokens
}

// Book is the price table with the calls that it is about.
type Book struct {
	Date, Source string
	Models       map[string]Model
	Calls        []Call
	Unpriced     []string // hosts of model APIs that no call is about: nothing is sent to them under a limit
}

// Embedded is the table of this version. It is part of the program: a wrong one is a fault of the build, and the tests read
// it.
func Embedded() Book {
	b, err := embeddedBook()
	if err != nil {
		panic("spend: " + err.Error())
	}
	return b
}

var embeddedBook = sync.OnceValues(func() (Book, error) { return Parse("prices.yaml", embedded) })

type bookFile struct {
	Version int       `yaml:"version"`
	Date    string    `yaml:"date"`
	Source  string    `yaml:"source"`
	APIs    []apiFile `yaml:"apis"`
	// Hosts of model APIs without a price.
	Unpriced []string             `yaml:"unpriced"`
	Models   map[string]modelFile `yaml:"models"`
}

type apiFile struct {
	Name  string   `yaml:"name"`
	Hosts []string `yaml:"hosts"`
	Paths []string `yaml:"paths"`
	Free  []string `yaml:"free"`
}

type modelFile struct {
	Input        *dollars  `yaml:"input"`
	Output       *dollars  `yaml:"output"`
	CacheRead    *dollars  `yaml:"cache-read"`
	CacheWrite   *dollars  `yaml:"cache-write"`
	CacheWrite1h *dollars  `yaml:"cache-write-1h"`
	MaxOutput    int64     `yaml:"max-output"`
	Context      int64     `yaml:"context"`
	Image        int64     `yaml:"image"`
	Hidden       string    `yaml:"hidden"`
	Long         *longFile `yaml:"long"`
}

type longFile struct {
	Above        int64    `yaml:"above"`
	Input        *dollars `yaml:"input"`
	Output       *dollars `yaml:"output"`
	CacheRead    *dollars `yaml:"cache-read"`
	CacheWrite   *dollars `yaml:"cache-write"`
	CacheWrite1h *dollars `yaml:"cache-write-1h"`
}

// dollars are US dollars as decimal text, kept in millionths.
type dollars int64

func (d *dollars) UnmarshalYAML(b []byte) error {
	v, ok := Dollars(strings.TrimSpace(string(b)))
	if !ok || v > 100_000*million {
		return fmt.Errorf("expected US dollars such as 2.50, with at most six decimals, found %.20q", b)
	}
	*d = dollars(v)
	return nil
}

const million = 1_000_000

var dollarForm = pattern.New(`^([0-9]{1,9})(?:\.([0-9]{1,6}))?$`)

// Dollars reads US dollars in decimal text ("5", "0.25") into millionths.
func Dollars(s string) (micro int64, ok bool) {
	m := dollarForm.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	whole, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0, false
	}
	part, err := strconv.ParseInt((m[2] + "000000")[:6], 10, 64)
	return whole*million + part, err == nil
}

// Parse reads a price file strictly. name is for messages. CodeInvalid with the place of what is wrong; what a later
// version brings is an unknown key, and an unknown key is an error.
func Parse(name string, data []byte) (Book, error) {
	bad := func(subject, message string) (Book, error) {
		return Book{}, &sallyport.Error{Op: "read prices", Code: sallyport.CodeInvalid, Subject: strings.TrimSuffix(name+": "+subject, ": "), Message: message,
			Hint: "a price file has version, date, source, models and apis, like the table in docs/guide-spend.md"}
	}
	if len(data) > MaxBook {
		return bad("", fmt.Sprintf("expected at most %d bytes", MaxBook))
	}
	var f bookFile
	if err := yaml.UnmarshalWithOptions(data, &f, yaml.Strict()); err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
		return bad("", fmt.Sprintf("%.200s", first))
	}
	if f.Version != 1 {
		return bad("version", "expected version: 1")
	}
	b := Book{Date: f.Date, Source: f.Source, Models: map[string]Model{}, Unpriced: f.Unpriced}
	for _, a := range f.APIs {
		if dialects[a.Name] == nil {
			return bad("apis", fmt.Sprintf("unknown api %.40q; expected one of %s", a.Name, strings.Join(slices.Sorted(maps.Keys(dialects)), ", ")))
		}
		for _, p := range slices.Concat(a.Paths, a.Free) {
			if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "?#%*") {
				return bad("apis", fmt.Sprintf("expected exact paths such as /v1/messages, found %.60q", p))
			}
		}
		b.Calls = append(b.Calls, Call(a))
	}
	for _, id := range slices.Sorted(maps.Keys(f.Models)) {
		m, wrong := f.Models[id].model()
		if wrong != "" || id == "" {
			return bad("models."+id, wrong)
		}
		b.Models[id] = m
	}
	return b, nil
}

func (f modelFile) model() (m Model, wrong string) {
	if f.Input == nil || f.Output == nil {
		return m, "expected at least input and output"
	}
	m = Model{MaxOutput: f.MaxOutput, Context: f.Context, Image: f.Image, Hidden: f.Hidden,
		Price: priced(*f.Input, *f.Output, f.CacheRead, f.CacheWrite, f.CacheWrite1h)}
	switch {
	case min(f.MaxOutput, f.Context, f.Image) < 0 || max(f.MaxOutput, f.Context, f.Image) > maxTokens:
		return m, "expected max-output, context and image as numbers of tokens"
	case !slices.Contains([]string{"", "true", "asked"}, f.Hidden):
		return m, "expected hidden: true or asked, or nothing"
	}
	if l := f.Long; l != nil {
		if l.Input == nil || l.Output == nil || l.Above < 1 || l.Above > maxTokens {
			return m, "expected long with above, input and output"
		}
		p := priced(*l.Input, *l.Output, l.CacheRead, l.CacheWrite, l.CacheWrite1h)
		m.Long, m.LongAbove = &p, l.Above
	}
	return m, ""
}

// priced fills what is not said with the dearest that is: nothing is cheaper for not being listed.
func priced(input, output dollars, read, write, hour *dollars) Price {
	p := Price{Input: int64(input), Output: int64(output), CacheRead: int64(input), CacheWrite: int64(input)}
	if read != nil {
		p.CacheRead = int64(*read)
	}
	if write != nil {
		p.CacheWrite = int64(*write)
	}
	p.CacheWrite1h = p.CacheWrite
	if hour != nil {
		p.CacheWrite1h = int64(*hour)
	}
	return p
}

// With is b where over's models and calls come first.
func (b Book) With(over Book) Book {
	out := Book{Date: b.Date, Source: b.Source, Models: maps.Clone(b.Models), Calls: slices.Concat(over.Calls, b.Calls), Unpriced: slices.Concat(over.Unpriced, b.Unpriced)}
	maps.Copy(out.Models, over.Models)
	return out
}

// dated is how the APIs name a model of one day.
var dated = pattern.New(`^(.+)-(20[0-9]{6}|20[0-9]{2}-[0-9]{2}-[0-9]{2})$`)

// Model is the row for a model's name: its own, or that of the name without its date.
func (b Book) Model(name string) (Model, bool) {
	m, ok := b.Models[name]
	if parts := dated.FindStringSubmatch(name); !ok && parts != nil {
		m, ok = b.Models[parts[1]]
	}
	return m, ok
}

// Metered reports whether the table is about host.
func (b Book) Metered(host string) bool {
	return slices.Contains(b.Unpriced, host) || slices.ContainsFunc(b.Calls, func(c Call) bool { return slices.Contains(c.Hosts, host) })
}

// Kind is what a call means for a spend limit. The zero value is the cautious one.
type Kind int

// The kinds.
const (
	Unpriced Kind = iota // not in the table: refused
	Free
	Priced
)

// Call finds the call at path (without its query) of host by method. Of a host that the table is not about, an operator's
// own upstream, every call of the table counts.
func (b Book) Call(host, method, path string) (api string, kind Kind) {
	known := b.Metered(host)
	for _, c := range b.Calls {
		switch {
		case known && !slices.Contains(c.Hosts, host):
		case method == "POST" && slices.Contains(c.Paths, path):
			return c.Name, Priced
		case slices.Contains(c.Free, path):
			return c.Name, Free
		}
	}
	return "", Unpriced
}
