// render CHART RELEASE NAMESPACE < VALUES: what the chart makes of these values (JSON), on standard output.
//
// The engine of Helm is Go's text/template with the functions of sprig and a few of its own. This program puts the same
// together from Debian's packages, for the functions that our chart uses, so that the chart is tested where Helm is not
// to be had. Like Helm it decodes values by way of JSON, takes an unknown key as empty, and makes documents of templates
// whose names do not begin with "_"; the notes go to standard error. A template that fails is one sentence on standard error and status 1.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v2"
)

type values = map[string]interface{}

// plain turns what YAML decodes into what JSON would: all numbers are float64, all keys are strings.
func plain(value interface{}) interface{} {
	switch v := value.(type) {
	case map[interface{}]interface{}:
		made := values{}
		for key, item := range v {
			made[fmt.Sprint(key)] = plain(item)
		}
		return made
	case []interface{}:
		for i := range v {
			v[i] = plain(v[i])
		}
		return v
	case int:
		return float64(v)
	}
	return value
}

func read(path string) values {
	text, err := os.ReadFile(path)
	stop(err)
	var decoded interface{}
	stop(yaml.Unmarshal(text, &decoded))
	made, ok := plain(decoded).(values)
	if !ok {
		stop(errors.New(path + " is no mapping"))
	}
	return made
}

// merge lays `over` on `base`: mappings member by member; null takes a member away.
func merge(base, over values) {
	for key, value := range over {
		inner, isMap := value.(values)
		old, wasMap := base[key].(values)
		switch {
		case value == nil:
			delete(base, key)
		case isMap && wasMap:
			merge(old, inner)
		default:
			base[key] = value
		}
	}
}

type files struct{ folder string }

func (f files) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(f.folder, name))
	if err != nil {
		return ""
	}
	return string(text)
}

func toYAML(value interface{}) string {
	text, err := yaml.Marshal(value)
	stop(err)
	return strings.TrimSuffix(string(text), "\n")
}

func functions(root *template.Template) template.FuncMap {
	made := sprig.TxtFuncMap()
	delete(made, "env")
	delete(made, "expandenv")
	depth := 0
	made["toYaml"] = toYAML
	made["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return value, errors.New(message)
		}
		return value, nil
	}
	made["include"] = func(name string, data interface{}) (string, error) {
		depth++
		defer func() { depth-- }()
		if depth > 1000 {
			return "", errors.New(name + " includes itself")
		}
		var text bytes.Buffer
		err := root.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	return made
}

func stop(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) != 4 {
		stop(errors.New("usage: render CHART RELEASE NAMESPACE < VALUES"))
	}
	folder := os.Args[1]
	set := read(filepath.Join(folder, "values.yaml"))
	given := values{}
	stop(json.NewDecoder(os.Stdin).Decode(&given))
	merge(set, given)
	chart := values{}
	for key, value := range read(filepath.Join(folder, "Chart.yaml")) {
		chart[strings.ToUpper(key[:1])+key[1:]] = value
	}
	paths, err := filepath.Glob(filepath.Join(folder, "templates", "*"))
	stop(err)
	sort.Strings(paths)
	root := template.New("chart").Option("missingkey=zero")
	root.Funcs(functions(root))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		stop(err)
		_, err = root.New(path).Parse(string(text))
		stop(err)
	}
	release := values{"Name": os.Args[2], "Namespace": os.Args[3], "Service": "Helm", "IsInstall": true, "IsUpgrade": false, "Revision": 1}
	for _, path := range paths {
		if strings.HasPrefix(filepath.Base(path), "_") {
			continue
		}
		var text bytes.Buffer
		data := values{"Values": set, "Chart": chart, "Release": release, "Files": files{folder},
			"Template": values{"Name": path, "BasePath": filepath.Join(folder, "templates")}}
		stop(root.ExecuteTemplate(&text, path, data))
		made := strings.ReplaceAll(text.String(), "<no value>", "")
		if filepath.Base(path) == "NOTES.txt" {
			fmt.Fprint(os.Stderr, made)
		} else if strings.TrimSpace(made) != "" {
			_, err = io.WriteString(os.Stdout, "---\n# Source: "+filepath.Base(path)+"\n"+made+"\n")
			stop(err)
		}
	}
}
