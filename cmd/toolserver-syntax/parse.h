// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

#include <stdbool.h>
#include <stdint.h>

// A node is one of a tree, as the server reads it.
typedef struct {
  uint32_t start, end;
  uint32_t size; // nodes of its subtree, itself among them
  uint16_t kind;
  uint8_t field, flags;
} syntax_node;

enum { SYNTAX_NAMED = 1, SYNTAX_EXTRA = 2, SYNTAX_ERROR = 4, SYNTAX_MISSING = 8 };

// syntax_parse parses a text and returns its nodes in preorder, to be freed. It returns
// NULL where there are more than most.
syntax_node *syntax_parse(const void *language, const char *text, uint32_t length, uint32_t most, uint32_t *nodes);
