package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// decode reads workspace.json. Keys are matched exactly; every other key is kept in Extra. On an
// error the result has what could be read and is fit for nothing but a message.
func decode(data []byte) (ws vm.Workspace, err error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return ws, fmt.Errorf("workspace.json is damaged: %w", err)
	}
	if raw == nil {
		return ws, fmt.Errorf("workspace.json is damaged: it is no object")
	}
	if err := json.Unmarshal(raw["version"], &ws.Version); err != nil || ws.Version < 1 {
		return ws, fmt.Errorf("workspace.json has no version")
	}
	v := reflect.ValueOf(&ws).Elem()
	for i, key := range keys() {
		value, ok := raw[key]
		if !ok || key == "" {
			continue
		}
		delete(raw, key)
		if e := json.Unmarshal(value, v.Field(i).Addr().Interface()); e != nil && err == nil {
			err = fmt.Errorf("workspace.json: %q: %w", key, e)
		}
	}
	if ws.Version > vm.ConfigVersion {
		return ws, problem.New(problem.Refused,
			fmt.Sprintf("workspace.json has version %d and this program knows %d", ws.Version, vm.ConfigVersion),
			"A newer Bromure TUI made it: use that one.")
	}
	if len(raw) > 0 {
		ws.Extra = raw
	}
	return ws, err
}

// encode writes workspace.json: the known fields in their order, then the others by name.
func encode(ws vm.Workspace) ([]byte, error) {
	known, err := json.Marshal(ws)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.Write(bytes.TrimSuffix(known, []byte("}")))
	ours := keys()
	for _, key := range slices.Sorted(maps.Keys(ws.Extra)) {
		if key != "" && slices.Contains(ours, key) {
			continue // ours now
		}
		name, err := json.Marshal(key)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, ",%s:%s", name, ws.Extra[key])
	}
	out.WriteByte('}')
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, out.Bytes(), "", "  "); err != nil {
		return nil, fmt.Errorf("encode workspace.json: %w", err)
	}
	pretty.WriteByte('\n')
	if pretty.Len() > maxFile {
		return nil, fmt.Errorf("workspace.json would have %d bytes, the limit is %d", pretty.Len(), maxFile)
	}
	return pretty.Bytes(), nil
}

// keys are the JSON names of vm.Workspace's fields, by their index; "" is a field that is not stored.
func keys() []string {
	t := reflect.TypeFor[vm.Workspace]()
	names := make([]string, t.NumField())
	for i := range names {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "-" {
			names[i] = name
		}
	}
	return names
}
