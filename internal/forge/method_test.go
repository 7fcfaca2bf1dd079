package forge_test

import (
	"reflect"
	"strings"
	"testing"

	"sallyport.dev/sallyport/internal/forge"
	"sallyport.dev/sallyport/internal/forge/git"
	"sallyport.dev/sallyport/internal/forge/gitea"
)

// Publishing ends with a pull request: nothing that speaks to a forge can be asked for more. A new driver has a line here.
func TestNobodyCanMerge(t *testing.T) {
	drivers := []reflect.Type{
		reflect.TypeFor[forge.Driver](),
		reflect.TypeFor[*gitea.Driver](),
		reflect.TypeFor[*git.Driver](),
	}
	contract := drivers[0]
	for _, d := range drivers {
		if !d.Implements(contract) {
			t.Errorf("%v is no driver", d)
		}
		for i := range d.NumMethod() {
			name := strings.ToLower(d.Method(i).Name)
			for _, word := range []string{"merge", "approve", "protect", "land"} {
				if strings.Contains(name, word) {
					t.Errorf("%v has %s", d, d.Method(i).Name)
				}
			}
		}
		// An exported method beyond the contract is a way past it; the one that ends a credential is none.
		for i := range d.NumMethod() {
			name := d.Method(i).Name
			if _, ok := contract.MethodByName(name); !ok && name != "RevokeMark" {
				t.Errorf("%v has %s, the contract has not", d, name)
			}
		}
	}
}
