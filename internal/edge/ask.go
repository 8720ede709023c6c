// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolserver/toolserver/internal/output"
	pb "github.com/toolserver/toolserver/proto/toolserver/v1"
)

// ask sees to an answer to what a call waits for. The person at the client is asked
// where the client can do that and the caller may answer; else the question waits for
// somebody else, and the client is told.
func (c *call) ask(a *pb.Approval) {
	waits := fmt.Sprintf("%s waits for an approval, until %s at the latest: \"toolserver approvals watch\" shows and answers it, as %s.",
		a.GetTool(), a.GetExpireTime().AsTime().Format("15:04:05 MST"), a.GetApprovalId())
	switch {
	case c.task != "" && c.pendingFor(c.outgoing, a.GetExecutionId()).GetApprovalId() != a.GetApprovalId():
		// It was answered before anybody followed the task.
	case !c.canAsk():
		c.nobody(a, waits, "the MCP client cannot ask its user (it has no elicitation)")
	case !c.mayAnswer(a):
		c.nobody(a, waits, "the caller cannot approve its own calls")
	default:
		c.say(waits)
		ctx, end := context.WithCancel(c.ctx)
		if c.asking == nil {
			c.asking = make(map[string]context.CancelFunc)
		}
		c.asking[a.GetApprovalId()] = end
		go c.elicit(ctx, a, waits)
	}
}

// nobody is for a question that the client cannot answer. Where nobody else can, it is
// declined at once.
func (c *call) nobody(a *pb.Approval, waits, why string) {
	if !c.alone {
		c.say(waits)
		return
	}
	request := answerTo(a, pb.AnswerKind_ANSWER_KIND_DENY_ONCE)
	request.Comment = "Nobody could be asked: " + why + ", and this server has no other clients."
	c.approvals.ResolveApproval(c.outgoing, request)
}

// canAsk reports whether the client can show a form to its user.
func (c *call) canAsk() bool {
	params := c.peer.InitializeParams()
	if params == nil || params.Capabilities == nil || params.Capabilities.Elicitation == nil {
		return false
	}
	can := params.Capabilities.Elicitation
	return can.Form != nil || can.URL == nil
}

// mayAnswer reports whether an answer of the caller would count: one to a tool always,
// and one that approves where the server lets principals approve their own calls.
func (c *call) mayAnswer(a *pb.Approval) bool {
	if len(a.GetQuestions()) > 0 {
		return true
	}
	info, err := c.tools.GetServerInfo(c.outgoing, &pb.GetServerInfoRequest{})
	return err == nil && info.GetSelfApproval()
}

// elicit asks the person at the client, and gives the answer. One who leaves without
// an answer has given none.
func (c *call) elicit(ctx context.Context, a *pb.Approval, waits string) {
	schema, read := formOf(a)
	result, err := c.peer.Elicit(ctx, &mcp.ElicitParams{Meta: c.related(), Mode: "form", Message: textOf(a), RequestedSchema: schema})
	var request *pb.ResolveApprovalRequest
	switch {
	case ctx.Err() != nil:
		return // somebody else has answered, or the call has ended
	case err != nil || result.Action == "cancel":
		c.nobody(a, waits, "the question was not answered")
		return
	case result.Action == "accept":
		request = read(result.Content)
	default:
		request = answerTo(a, pb.AnswerKind_ANSWER_KIND_DENY_ONCE)
	}
	_, err = c.approvals.ResolveApproval(c.outgoing, request)
	if status.Code(err) == codes.InvalidArgument { // it would wait for a better one that never comes
		declined := answerTo(a, pb.AnswerKind_ANSWER_KIND_DENY_ONCE)
		declined.Comment = "The MCP client gave an answer that is none: " + status.Convert(err).Message()
		_, err = c.approvals.ResolveApproval(c.outgoing, declined)
	}
	if err != nil && status.Code(err) != codes.Canceled {
		c.nobody(a, waits, status.Convert(err).Message())
	}
}

// answerTo returns an answer to exactly what was shown.
func answerTo(a *pb.Approval, kind pb.AnswerKind) *pb.ResolveApprovalRequest {
	return &pb.ResolveApprovalRequest{ApprovalId: a.GetApprovalId(), Digest: a.GetDigest(), Kind: kind}
}

// textOf is what the person sees: why and what is asked, and what the call would do.
// Text that comes from elsewhere stands behind a margin.
func textOf(a *pb.Approval) string {
	var b strings.Builder
	if len(a.GetQuestions()) > 0 {
		fmt.Fprintf(&b, "%s wants to know:\n", a.GetTool())
		for _, q := range a.GetQuestions() {
			quote(&b, strings.TrimSpace(q.GetHeader()+"\n"+q.GetText()))
		}
		return b.String()
	}
	fmt.Fprintf(&b, "%s needs approval by %s: %s\n", a.GetTool(), a.GetVerdict().GetRule(), a.GetVerdict().GetReason())
	if chain := a.GetChain(); len(chain) > 0 {
		var agents []string
		for _, link := range chain {
			agents = append(agents, link.GetAgent())
		}
		fmt.Fprintf(&b, "It is a call of an agent: %s.\n", strings.Join(agents, ", which asked "))
	}
	if a.GetPurpose() != "" {
		b.WriteString("Purpose, as the agent tells it:\n")
		quote(&b, a.GetPurpose())
	}
	for _, judged := range a.GetEffects() {
		if judged.GetVerdict().GetAction() == a.GetVerdict().GetAction() {
			fmt.Fprintf(&b, "- %s (%s)\n", effectText(judged.GetEffect()), judged.GetVerdict().GetRule())
		}
	}
	if n := a.GetMoreEffects(); n > 0 {
		fmt.Fprintf(&b, "- and %d more that are not shown\n", n)
	}
	if hooks := a.GetChangedByHooks(); len(hooks) > 0 {
		fmt.Fprintf(&b, "The input was changed by %s.\n", strings.Join(hooks, ", "))
	}
	if p := a.GetPreview(); p.GetText() != "" {
		b.WriteString("What it would do:\n")
		quote(&b, p.GetText())
		if n := p.GetHiddenBytes(); n > 0 {
			fmt.Fprintf(&b, "%d more bytes of it are not shown.\n", n)
		}
	}
	return b.String()
}

// quote writes text behind a margin.
func quote(b *strings.Builder, text string) {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n").Replace(text)
	for line := range strings.SplitSeq(strings.TrimSuffix(output.WithoutInvisible(text), "\n"), "\n") {
		b.WriteString("| " + line + "\n")
	}
}

// effectText tells what a call would touch.
func effectText(e *pb.Effect) string {
	text := "does something else"
	switch kind := e.GetKind().(type) {
	case *pb.Effect_Reads:
		text = "reads " + strconv.Quote(kind.Reads.GetPath()) + below(kind.Reads)
	case *pb.Effect_Writes:
		text = "writes " + strconv.Quote(kind.Writes.GetPath()) + below(kind.Writes)
	case *pb.Effect_Runs:
		text = fmt.Sprintf("runs %q", kind.Runs.GetArgv())
	case *pb.Effect_Reaches:
		text = fmt.Sprintf("reaches %q, port %d", kind.Reaches.GetHost(), kind.Reaches.GetPort())
	case *pb.Effect_Uses:
		text = "uses " + strconv.Quote(kind.Uses.GetTool())
	case *pb.Effect_ChangesMode:
		text = "changes the mode of the session to " + kind.ChangesMode.GetMode().String()
	}
	if why := e.GetUnclear(); why != "" {
		text += "; unclear: " + why
	}
	return text
}

func below(p *pb.PathEffect) string {
	if p.GetTree() {
		return " and everything below"
	}
	return ""
}

// property is one field of a form, in the part of JSON Schema that forms may have.
type property struct {
	Type        string   `json:"type"`
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description,omitempty"`
	Enum        []string `json:"enum,omitempty"`
	EnumNames   []string `json:"enumNames,omitempty"`
}

// form is the schema of what a person fills in.
type form struct {
	Type       string              `json:"type"`
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required,omitempty"`
}

// The answers of a form that is about whether a call may run.
const (
	allowOnce   = "allow"
	allowAlways = "always " // and a tier
	deny        = "deny"
	denyAlways  = "never " // and a tier
)

// formOf returns the form for an approval, and what reads an answer from it.
func formOf(a *pb.Approval) (*form, func(map[string]any) *pb.ResolveApprovalRequest) {
	if len(a.GetQuestions()) > 0 {
		return questionsForm(a), func(content map[string]any) *pb.ResolveApprovalRequest { return answersOf(a, content) }
	}
	answer := property{Type: "string", Title: "Answer", Enum: []string{allowOnce, deny}, EnumNames: []string{"Allow this call", "Deny it"}}
	for _, tier := range a.GetTiers() {
		answer.Enum = append(answer.Enum, allowAlways+tier.GetTierId())
		answer.EnumNames = append(answer.EnumNames, "Always allow, for this session: "+tier.GetLabel())
	}
	for _, tier := range a.GetTiers() {
		answer.Enum = append(answer.Enum, denyAlways+tier.GetTierId())
		answer.EnumNames = append(answer.EnumNames, "Never allow, for this session: "+tier.GetLabel())
	}
	f := &form{Type: "object", Required: []string{"answer"}, Properties: map[string]property{
		"answer":  answer,
		"comment": {Type: "string", Title: "Comment", Description: "What the model is told."},
	}}
	return f, func(content map[string]any) *pb.ResolveApprovalRequest {
		request := answerTo(a, pb.AnswerKind_ANSWER_KIND_DENY_ONCE)
		request.Comment, _ = content["comment"].(string)
		chosen, _ := content["answer"].(string)
		if tier, ok := strings.CutPrefix(chosen, allowAlways); ok {
			request.Kind, request.TierId = pb.AnswerKind_ANSWER_KIND_ALLOW_ALWAYS, tier
		} else if tier, ok := strings.CutPrefix(chosen, denyAlways); ok {
			request.Kind, request.TierId = pb.AnswerKind_ANSWER_KIND_DENY_ALWAYS, tier
		} else if chosen == allowOnce {
			request.Kind = pb.AnswerKind_ANSWER_KIND_ALLOW_ONCE
		}
		return request
	}
}

// questionsForm has a field for each question of a tool: its options, or one that is
// checked for each option where several may be chosen, and one for own words.
func questionsForm(a *pb.Approval) *form {
	f := &form{Type: "object", Properties: make(map[string]property)}
	for i, q := range a.GetQuestions() {
		name := "q" + strconv.Itoa(i+1)
		if q.GetMultiple() {
			for j, option := range q.GetOptions() {
				f.Properties[fmt.Sprintf("%s_%d", name, j+1)] = property{Type: "boolean", Title: option.GetLabel(), Description: option.GetDescription()}
			}
		} else if len(q.GetOptions()) > 0 {
			p := property{Type: "string", Title: q.GetText()}
			for _, option := range q.GetOptions() {
				p.Enum = append(p.Enum, option.GetLabel())
			}
			f.Properties[name] = p
		}
		if !q.GetOptionsOnly() {
			f.Properties[name+"_text"] = property{Type: "string", Title: "In your own words", Description: q.GetText()}
		}
	}
	return f
}

func answersOf(a *pb.Approval, content map[string]any) *pb.ResolveApprovalRequest {
	request := answerTo(a, pb.AnswerKind_ANSWER_KIND_ANSWERED)
	for i, q := range a.GetQuestions() {
		name := "q" + strconv.Itoa(i+1)
		answer := new(pb.QuestionAnswer)
		answer.Text, _ = content[name+"_text"].(string)
		if chosen, ok := content[name].(string); ok && chosen != "" {
			answer.Chosen = []string{chosen}
		}
		for j, option := range q.GetOptions() {
			if yes, _ := content[fmt.Sprintf("%s_%d", name, j+1)].(bool); yes && q.GetMultiple() {
				answer.Chosen = append(answer.Chosen, option.GetLabel())
			}
		}
		request.Answers = append(request.Answers, answer)
	}
	return request
}
