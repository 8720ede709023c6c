// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolserver/toolserver/internal/auth"
	"github.com/toolserver/toolserver/internal/cli"
)

func newTokenCreate() *cobra.Command {
	var (
		roles, tenant, mode string
		lifetime            time.Duration
		users               []string
	)
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token, and its line for the token file",
		Long: `create makes a token for the principal NAME. The token goes to standard error, and
nothing keeps it; the line with its hash goes to standard output, for the file that
authentication.token_file of the server's configuration names. A server that runs takes
the line in force within seconds.

A principal may have several tokens: to replace one, add the new line, give the token to
its owner, and remove the old line.`,
		Example: `  toolserver token create alice >> /etc/toolserver/tokens
  toolserver token create --roles agent,approver --expires 2160h carol >> /etc/toolserver/tokens`,
		Args: cli.Arguments,
		RunE: func(_ *cobra.Command, args []string) error {
			token := auth.Token{Principal: auth.Principal{Name: args[0]}, Secret: auth.NewSecret()}
			if err := auth.CheckName(args[0]); err != nil {
				return err
			}
			if err := token.Principal.Roles.UnmarshalText([]byte(roles)); err != nil {
				return fmt.Errorf("--roles: %w", err)
			}
			if err := token.Principal.SetTenant(tenant); err != nil {
				return fmt.Errorf("--tenant: %w", err)
			}
			var err error
			if token.Principal.ActsFor, err = auth.NewActsFor(users); err != nil {
				return fmt.Errorf("--on-behalf-of: %w", err)
			}
			if mode != "" {
				if err := token.Principal.MaxMode.UnmarshalText([]byte(mode)); err != nil {
					return fmt.Errorf("--max-mode: %w", err)
				}
			}
			if lifetime < 0 {
				return fmt.Errorf("--expires: %s is over already", lifetime)
			}
			if lifetime > 0 {
				token.Expires = time.Now().Add(lifetime).Truncate(time.Second)
			}
			if _, err := fmt.Fprintln(cli.NewStream(os.Stdout), token.Line()); err != nil {
				return err // nobody shall use a token whose line is lost
			}
			fmt.Fprintf(cli.NewStream(os.Stderr), "The token of %s, which is shown only now:\n\n  %s\n\n", cli.Visible(args[0]), token.Secret)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&roles, "roles", "agent", "what it may do: some of "+strings.Join(auth.AllRoles.Names(), ", "))
	flags.StringVar(&tenant, "tenant", "", "tenant that the principal is of, or * for an approver, operator or viewer of all tenants (default: the default tenant)")
	flags.StringVar(&mode, "max-mode", "", "most permissive mode of its sessions (default: the server's)")
	flags.StringSliceVar(&users, "on-behalf-of", nil, "end users for whom it may call, by patterns of their names; none: it calls for itself alone")
	flags.DurationVar(&lifetime, "expires", 0, "how long the token is valid, such as 2160h; 0: for ever")
	return cmd
}
