// Command kubernetes checks manifests of Kubernetes as a cluster would: by the types of its API, and whether the names in them exist. It prints
// the command of each container, as JSON, a line each.
//
// The module is one of its own, so that troupe has nothing of Kubernetes.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func main() {
	all, err := read(os.Args[1:])
	if err == nil {
		err = all.check()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	out := json.NewEncoder(os.Stdout)
	for _, s := range all.sets {
		for _, c := range s.Spec.Template.Spec.Containers {
			out.Encode(s.command(&c, all.configs))
		}
	}
}

// manifests are the objects of all files.
type manifests struct {
	sets     []set
	services []*core.Service
	budgets  []*policy.PodDisruptionBudget
	configs  map[string]map[string]string // the files of config maps, by name
}

type set struct{ *apps.StatefulSet }

// decoder refuses members unknown to the API, and members twice.
func decoder() (runtime.Decoder, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(apps.AddToScheme(scheme), core.AddToScheme(scheme), policy.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer(), nil
}

func read(paths []string) (m manifests, err error) {
	m.configs = make(map[string]map[string]string)
	decode, err := decoder()
	if err != nil {
		return m, err
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return m, err
		}
		documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
		buf := make([]byte, len(text)+1)
		for {
			n, err := documents.Read(buf)
			if err == io.EOF {
				break
			}
			if err != nil {
				return m, fmt.Errorf("%s: %w", path, err)
			}
			object, kind, err := decode.Decode(buf[:n], nil, nil)
			if err != nil {
				return m, fmt.Errorf("%s: %w", path, err)
			}
			if err := m.add(object, kind); err != nil {
				return m, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return m, nil
}

func (m *manifests) add(object runtime.Object, kind *schema.GroupVersionKind) error {
	switch o := object.(type) {
	case *apps.StatefulSet:
		m.sets = append(m.sets, set{o})
	case *core.Service:
		m.services = append(m.services, o)
	case *policy.PodDisruptionBudget:
		m.budgets = append(m.budgets, o)
	case *core.ConfigMap:
		m.configs[o.Name] = o.Data
	default:
		return fmt.Errorf("%v: this check does not know the kind", kind)
	}
	return nil
}

func (m *manifests) check() error {
	if len(m.sets) == 0 || len(m.services) == 0 {
		return errors.New("there is no StatefulSet, or no Service")
	}
	var all []error
	for _, s := range m.sets {
		all = append(all, s.check(m))
	}
	for _, b := range m.budgets {
		if m.selected(b.Spec.Selector.MatchLabels) == nil {
			all = append(all, fmt.Errorf("PodDisruptionBudget %s selects no pod", b.Name))
		}
	}
	for _, v := range m.services {
		s := m.selected(v.Spec.Selector)
		if s == nil {
			all = append(all, fmt.Errorf("Service %s selects no pod", v.Name))
			continue
		}
		all = append(all, isName("Service", v.Name))
		for _, p := range v.Spec.Ports {
			if !s.hasPort(p.TargetPort, p.Port) {
				all = append(all, fmt.Errorf("Service %s: no container has the port %s", v.Name, p.TargetPort.String()))
			}
		}
	}
	return errors.Join(all...)
}

// isName checks the name of an object in a DNS name.
func isName(kind, name string) error {
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		return fmt.Errorf("%s %q: %s", kind, name, strings.Join(wrong, ", "))
	}
	return nil
}

// selected returns the set whose pods have all labels; nil: there is none.
func (m *manifests) selected(of map[string]string) *set {
	for i, s := range m.sets {
		if len(of) > 0 && labels.SelectorFromSet(of).Matches(labels.Set(s.Spec.Template.Labels)) {
			return &m.sets[i]
		}
	}
	return nil
}

// check finds names of volumes, ports and services without an object, and selectors without a match.
func (s set) check(m *manifests) error {
	var all []error
	wrong := func(format string, a ...any) {
		all = append(all, fmt.Errorf("StatefulSet "+s.Name+": "+format, a...))
	}
	all = append(all, isName("StatefulSet", s.Name))
	if !labels.SelectorFromSet(s.Spec.Selector.MatchLabels).Matches(labels.Set(s.Spec.Template.Labels)) {
		wrong("its selector does not select its pods")
	}
	i := slices.IndexFunc(m.services, func(v *core.Service) bool { return v.Name == s.Spec.ServiceName })
	if i < 0 || m.services[i].Spec.ClusterIP != core.ClusterIPNone {
		wrong("there is no headless Service %q", s.Spec.ServiceName)
	}
	volumes := make(map[string]bool)
	for _, v := range s.Spec.Template.Spec.Volumes {
		volumes[v.Name] = false
		if v.ConfigMap != nil && m.configs[v.ConfigMap.Name] == nil {
			wrong("there is no ConfigMap %q", v.ConfigMap.Name)
		}
	}
	ports := make(map[string]bool)
	for _, c := range slices.Concat(s.Spec.Template.Spec.InitContainers, s.Spec.Template.Spec.Containers) {
		for _, v := range c.VolumeMounts {
			if _, ok := volumes[v.Name]; !ok {
				wrong("container %s: there is no volume %q", c.Name, v.Name)
			}
			volumes[v.Name] = true
		}
		for _, p := range c.Ports {
			if wrongs := validation.IsValidPortName(p.Name); len(wrongs) > 0 {
				wrong("port %q: %s", p.Name, strings.Join(wrongs, ", "))
			}
			if ports[p.Name] || ports[strconv.Itoa(int(p.ContainerPort))] {
				wrong("port %s or %d is there twice", p.Name, p.ContainerPort)
			}
			ports[p.Name], ports[strconv.Itoa(int(p.ContainerPort))] = true, true
		}
		for name, probe := range map[string]*core.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
			if probe != nil && probe.HTTPGet != nil && !s.hasPort(probe.HTTPGet.Port, 0) {
				wrong("the %s probe asks the port %s, which no container has", name, probe.HTTPGet.Port.String())
			}
		}
		for _, e := range c.Env {
			if e.Value != "" && e.ValueFrom != nil {
				wrong("the variable %s has two values", e.Name)
			}
		}
	}
	for name, used := range volumes {
		if !used {
			wrong("nothing mounts the volume %q", name)
		}
	}
	return errors.Join(all...)
}

// hasPort reports whether a container has the port. 0: the same port.
func (s set) hasPort(port intstr.IntOrString, otherwise int32) bool {
	if port == (intstr.IntOrString{}) {
		port = intstr.FromInt32(otherwise)
	}
	for _, c := range s.Spec.Template.Spec.Containers {
		for _, p := range c.Ports {
			if port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal {
				return true
			}
		}
	}
	return false
}

// A command is the command of a container, in pod 0 of its set.
type command struct {
	Args    []string          `json:"args"`
	PreStop []string          `json:"preStop"`
	Grace   int64             `json:"grace"`   // seconds
	Secrets map[string]string `json:"secrets"` // names, by the directories where they are mounted
	Files   map[string]string `json:"files"`   // of config maps, by path
	Empty   []string          `json:"empty"`   // directories that the container may write in
}

func (s set) command(c *core.Container, configs map[string]map[string]string) command {
	pod := s.Spec.Template.Spec
	of := command{Secrets: make(map[string]string), Files: make(map[string]string)}
	if pod.TerminationGracePeriodSeconds != nil {
		of.Grace = *pod.TerminationGracePeriodSeconds
	}
	for _, a := range c.Args {
		for _, e := range c.Env {
			a = strings.ReplaceAll(a, "$("+e.Name+")", s.value(&e))
		}
		of.Args = append(of.Args, a)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Exec != nil {
		of.PreStop = c.Lifecycle.PreStop.Exec.Command
	}
	for _, at := range c.VolumeMounts {
		switch v := pod.Volumes[slices.IndexFunc(pod.Volumes, func(v core.Volume) bool { return v.Name == at.Name })]; {
		case v.Secret != nil:
			of.Secrets[at.MountPath] = v.Secret.SecretName
		case v.ConfigMap != nil:
			for name, text := range configs[v.ConfigMap.Name] {
				of.Files[at.MountPath+"/"+name] = text
			}
		default:
			of.Empty = append(of.Empty, at.MountPath)
		}
	}
	return of
}

// value returns the value of a variable in pod 0.
func (s set) value(e *core.EnvVar) string {
	switch {
	case e.ValueFrom == nil || e.ValueFrom.FieldRef == nil:
		return e.Value
	case e.ValueFrom.FieldRef.FieldPath == "metadata.name":
		return s.Name + "-0"
	case e.ValueFrom.FieldRef.FieldPath == "status.podIP":
		return "10.1.2.3"
	}
	return ""
}
