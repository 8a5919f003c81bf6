package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// sbom returns the software bill of materials of a binary (CycloneDX 1.6, JSON): the modules that the binary names, and its version of Go.
func (s source) sbom(binary, arch string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	type hash struct {
		Alg     string `json:"alg"`
		Content string `json:"content"`
	}
	type property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	type licence struct {
		License struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	type component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		PURL       string     `json:"purl"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Licenses   []licence  `json:"licenses,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	type dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
	purl := func(path, version string) string {
		return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	}
	main := component{Type: "application", Name: "troupe", Version: s.full, PURL: purl(module, s.full), Hashes: []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(data))}}}
	main.Ref, main.Licenses = main.PURL, make([]licence, 1)
	main.Licenses[0].License.ID = "Apache-2.0"
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	parts := []component{{Type: "library", Name: "stdlib", Version: goVersion, Ref: purl("stdlib", goVersion), PURL: purl("stdlib", goVersion)}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component{Type: "library", Name: m.Path, Version: m.Version, Ref: purl(m.Path, m.Version), PURL: purl(m.Path, m.Version)}
		// The sum of go.sum is a hash over the files of the module, and not over an archive.
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == sha256.Size {
			c.Properties = []property{{"go:sum", m.Sum}}
		}
		parts = append(parts, c)
	}
	all := dependency{Ref: main.Ref}
	for _, c := range parts {
		all.DependsOn = append(all.DependsOn, c.Ref)
	}
	text, err := json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "serialNumber": serial(data),
		"metadata": map[string]any{
			"timestamp": s.date.Format(time.RFC3339), "component": main,
			"properties": []property{{"go:os", "linux"}, {"go:arch", arch}},
		},
		"components": parts, "dependencies": []dependency{all},
	}, "", "  ")
	return append(text, '\n'), err
}

// serial returns the UUID of a bill, from the hash of the binary: two runs make the same bill.
func serial(of []byte) string {
	h := sha256.Sum256(of)
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80 // version 8, of RFC 9562
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
