// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/page"
	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolserver/toolserver/internal/output"
	"github.com/toolserver/toolserver/internal/tools"
)

// What a snapshot shows of one element.
const (
	maxName     = 120 // characters of its name
	maxChildren = 60  // elements right below it; of more, as many as shownChildren
	maxAsked    = 1000
	maxDepth    = 100
	maxFrames   = 16
)

const shownChildren = 30

// An axNode is one of the accessibility tree. The types of cdproto refuse what newer
// browsers add to theirs.
type axNode struct {
	ID         string            `json:"nodeId"`
	Ignored    bool              `json:"ignored"`
	Role       axValue           `json:"role"`
	Name       axValue           `json:"name"`
	Value      axValue           `json:"value"`
	Properties []axProperty      `json:"properties"`
	Children   []string          `json:"childIds"`
	Parent     string            `json:"parentId"`
	Backend    cdp.BackendNodeID `json:"backendDOMNodeId"`
}

type axValue struct {
	Value jsontext.Value `json:"value"`
}

type axProperty struct {
	Name  string  `json:"name"`
	Value axValue `json:"value"`
}

func (v axValue) text() string {
	var text string
	if len(v.Value) > 0 && v.Value[0] == '"' {
		json.Unmarshal(v.Value, &text, jsontext.AllowInvalidUTF8(true))
		return text
	}
	return string(v.Value)
}

func (n *axNode) property(name string) string {
	for _, p := range n.Properties {
		if p.Name == name {
			return p.Value.text()
		}
	}
	return ""
}

// refs are the names that elements of a tab have: e1, e2 and so on. No name is given
// twice, so that one of a page that is gone means nothing on the next.
type refs struct {
	next   int
	byNode map[cdp.BackendNodeID]int
	nodes  map[int]element
}

// An element is what is known of one that has a name.
type element struct {
	node       cdp.BackendNodeID
	role, name string
	link       string // where it leads
}

// of returns the name of an element, which it is given if it has none.
func (r *refs) of(n *axNode, role, name string) string {
	number, ok := r.byNode[n.Backend]
	if !ok {
		if r.byNode == nil {
			r.byNode, r.nodes = make(map[cdp.BackendNodeID]int), make(map[int]element)
		}
		r.next++
		number = r.next
		r.byNode[n.Backend] = number
	}
	r.nodes[number] = element{n.Backend, role, name, n.property("url")}
	return "e" + strconv.Itoa(number)
}

// forget forgets all elements, and gives none of their names again.
func (r *refs) forget() { *r = refs{next: r.next} }

// A Snapshot is what a page shows.
type Snapshot struct {
	Lines   []string // one for each element
	Changes bool     // Lines are what was removed and added since the last one
}

// interactive are the roles of elements that are there to be used.
var interactive = map[string]bool{
	"link": true, "button": true, "textbox": true, "searchbox": true, "combobox": true, "checkbox": true, "radio": true, "switch": true,
	"menuitem": true, "menuitemcheckbox": true, "menuitemradio": true, "option": true, "tab": true, "slider": true, "spinbutton": true,
	"listbox": true, "treeitem": true, "DisclosureTriangle": true, "ColorWell": true, "Date": true, "DateTime": true, "InputTime": true,
	"PopUpButton": true, "FileUpload": true,
}

// silent are the roles of elements of which only what is below is shown.
var silent = map[string]bool{
	"": true, "none": true, "generic": true, "presentation": true, "RootWebArea": true, "LayoutTable": true, "LayoutTableRow": true,
	"LayoutTableCell": true, "rowgroup": true, "Section": true, "LabelText": true, "paragraph": true, "Abbr": true, "emphasis": true, "strong": true,
}

// unseen are the roles of what is shown by what is above it.
var unseen = map[string]bool{"InlineTextBox": true, "LineBreak": true, "ListMarker": true}

// Snapshot returns the accessibility tree of the page, or of what is below the element that
// ref names. Of the whole page it is what changed since the last snapshot, unless all is
// asked for or that is not much shorter.
func (t *Tab) Snapshot(ctx context.Context, ref string, all bool) (s Snapshot, err error) {
	var root element
	if ref != "" {
		if root, err = t.element(ref); err != nil {
			return s, err
		}
	}
	err = t.do(ctx, func(ctx context.Context) error {
		tree, err := t.accessibility(ctx)
		if err != nil {
			return err
		}
		t.b.mu.Lock()
		defer t.b.mu.Unlock()
		if t.shownOf != t.loader {
			t.refs.forget()
			t.shown, t.shownOf = nil, t.loader
		}
		tree.most = maxChildren
		from := tree.root
		if ref != "" {
			tree.most = maxAsked
			if from = tree.byBackend[root.node]; from == nil {
				return noElement(ref)
			}
		}
		lines := t.refs.flat(tree.render(from, 0), 0, nil)
		if s.Lines = lines; ref != "" {
			return nil
		}
		if changes := changed(t.shown, lines); t.shown != nil && !all && len(changes) <= len(lines)/2 {
			s.Lines, s.Changes = changes, true
		}
		t.shown = lines
		return nil
	})
	return s, err
}

// tree is an accessibility tree that is shown.
type tree struct {
	root      *axNode
	byID      map[string]*axNode
	byBackend map[cdp.BackendNodeID]*axNode
	frames    map[cdp.BackendNodeID]*tree // what is in the frames of the page
	most      int                         // children that are shown
}

// accessibility asks for the tree of the page and of the frames in it.
func (t *Tab) accessibility(ctx context.Context) (*tree, error) {
	all, err := t.frameTree(ctx, "")
	if err != nil || !all.has("Iframe") {
		return all, err
	}
	frames, err := page.GetFrameTree().Do(ctx)
	if err != nil {
		return all, nil // it is on the way out
	}
	all.frames = make(map[cdp.BackendNodeID]*tree)
	var add func(children []*page.FrameTree)
	add = func(children []*page.FrameTree) {
		for _, child := range children {
			owner, _, err := dom.GetFrameOwner(child.Frame.ID).Do(ctx)
			if err != nil || len(all.frames) >= maxFrames {
				continue
			}
			if inner, err := t.frameTree(ctx, child.Frame.ID); err == nil {
				all.frames[owner] = inner
				maps.Copy(all.byBackend, inner.byBackend)
			}
			add(child.ChildFrames)
		}
	}
	add(frames.ChildFrames)
	return all, nil
}

// frameTree asks for the tree of one frame; "" is the page itself.
func (t *Tab) frameTree(ctx context.Context, frame cdp.FrameID) (*tree, error) {
	var answer struct {
		Nodes []*axNode `json:"nodes"`
	}
	params := struct {
		FrameID cdp.FrameID `json:"frameId,omitzero"`
	}{frame}
	if err := cdp.Execute(ctx, "Accessibility.getFullAXTree", params, &answer); err != nil {
		return nil, err
	}
	at := &tree{byID: make(map[string]*axNode, len(answer.Nodes)), byBackend: make(map[cdp.BackendNodeID]*axNode, len(answer.Nodes))}
	for _, n := range answer.Nodes {
		if at.root == nil {
			at.root = n
		}
		at.byID[n.ID] = n
		if n.Backend != 0 && at.byBackend[n.Backend] == nil {
			at.byBackend[n.Backend] = n
		}
	}
	return at, nil
}

func (t *tree) has(role string) bool {
	for _, n := range t.byID {
		if n.Role.text() == role {
			return true
		}
	}
	return false
}

// A shownNode is a line of a snapshot, with those below it.
type shownNode struct {
	text  string
	plain string // of a text
	below []shownNode
	more  int // that are not shown below

	named      *axNode // what gets a ref; nil where nothing does
	role, name string
}

// render returns the lines of a node: none or many for one that is not shown itself.
func (t *tree) render(n *axNode, depth int) []shownNode {
	if n == nil || depth > maxDepth {
		return nil
	}
	role := n.Role.text()
	if unseen[role] {
		return nil
	}
	name := oneLine(n.Name.text())
	if role == "StaticText" && !n.Ignored {
		if name == "" {
			return nil
		}
		return []shownNode{{text: "text " + quoted(name), plain: name}}
	}
	var below []shownNode
	for _, id := range n.Children {
		below = append(below, t.render(t.byID[id], depth+1)...)
	}
	if inner := t.frames[n.Backend]; inner != nil {
		inner.most, inner.frames = t.most, t.frames
		below = append(below, inner.render(inner.root, depth+1)...)
	}
	focusable := n.property("focusable") == "true"
	if n.Ignored || silent[role] && !(focusable && role != "RootWebArea") {
		if len(below) <= t.most || depth == 0 && len(below) <= maxAsked && t.most == maxAsked {
			return below
		}
	}
	if len(below) > 0 && slices.IndexFunc(below, func(s shownNode) bool { return s.plain == "" }) < 0 && name != "" {
		below = nil // its name says it
	}
	words := []string{role}
	if name != "" {
		words = append(words, quoted(name))
	}
	for _, state := range states {
		switch v := n.property(state); {
		case v == "" || v == "false" && state != "expanded" && state != "checked":
		case state == "level":
			words = append(words, "level="+v)
		case v == "true":
			words = append(words, state)
		case v == "mixed":
			words = append(words, state+"=mixed")
		case v == "false":
			words = append(words, "not "+state)
		}
	}
	if value := oneLine(n.Value.text()); value != "" && value != name {
		words = append(words, "value="+quoted(value))
		below = nil
	}
	if wrapping[role] && len(below) == 1 && below[0].name == name && name != "" {
		return below
	}
	shown := shownNode{text: strings.Join(words, " "), below: below, role: role, name: name}
	if n.Backend == 0 {
		return []shownNode{shown}
	}
	if len(below) > t.most {
		shown.below, shown.more = below[:shownChildren], len(below)-shownChildren
	}
	if interactive[role] || focusable || shown.more > 0 {
		shown.named = n
	}
	return []shownNode{shown}
}

// wrapping are the roles of elements that often have one other in them, and its name.
var wrapping = map[string]bool{"cell": true, "gridcell": true, "listitem": true, "columnheader": true, "rowheader": true, "group": true}

// states are the properties that are shown.
var states = []string{"level", "checked", "pressed", "selected", "expanded", "disabled", "required", "invalid", "readonly", "focused", "modal", "busy"}

// flat returns nodes as lines, and gives refs to those that are shown.
func (r *refs) flat(nodes []shownNode, depth int, lines []string) []string {
	indent := strings.Repeat(" ", depth)
	for _, n := range nodes {
		line, ref := indent+n.text, ""
		if n.named != nil {
			ref = r.of(n.named, n.role, n.name)
			line += " [" + ref + "]"
		}
		lines = r.flat(n.below, depth+1, append(lines, line))
		if n.more > 0 {
			lines = append(lines, fmt.Sprintf("%s (%d more: take a snapshot with ref %s)", indent, n.more, ref))
		}
	}
	return lines
}

// changed returns the lines that were removed, with a -, and those that were added, with a
// +.
func changed(before, after []string) []string {
	return append(without("- ", before, after), without("+ ", after, before)...)
}

// without returns the lines that a list has and the other has not, with a mark.
func without(mark string, list, other []string) (lines []string) {
	count := make(map[string]int, len(other))
	for _, line := range other {
		count[line]++
	}
	for _, line := range list {
		if count[line]--; count[line] < 0 {
			lines = append(lines, mark+strings.TrimLeft(line, " "))
		}
	}
	return lines
}

// oneLine returns text without what nobody sees, on one line and not too long.
func oneLine(text string) string {
	return output.Short(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0xA0 || r >= 0x200B && r <= 0x200F || r == 0xFEFF }), " "), maxName)
}

func quoted(text string) string { return `"` + strings.ReplaceAll(text, `"`, `'`) + `"` }

// element returns what a ref names.
func (t *Tab) element(ref string) (element, error) {
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	number, err := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(ref, "@"), "e"))
	e, ok := t.refs.nodes[number]
	if err != nil || !ok || t.shownOf != t.loader {
		return element{}, noElement(ref)
	}
	return e, nil
}

func noElement(ref string) error {
	return tools.Failf("no_such_element", "There is no element %s in the last snapshot of this page: take a snapshot, and use a ref that it shows.", ref)
}

// LinkOf returns where the element leads that ref names on the current page; "" where that
// is not known.
func (b *Browser) LinkOf(ref string) string {
	b.mu.Lock()
	t := b.current
	b.mu.Unlock()
	if t == nil {
		return ""
	}
	e, _ := t.element(ref)
	return e.link
}
