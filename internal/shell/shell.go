package shell

import "github.com/toolserver/toolserver/internal/tools"

type Place struct{ Dir, Home, Workspace string }

func Effects(command string, place Place) []tools.Effect { return nil }
