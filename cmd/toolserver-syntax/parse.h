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

enum { SYNTAX_NAMED = 1, SYNTAX_EXTRA = 2, SYNTAX_ERROR = 4, SYNTAX_MISSING = 8, SYNTAX_FLAWED = 16 };

// What is wanted of a tree: at most so many nodes and, if there are places, those that have one of them
// and so many levels below these. Places are numbers of bytes, in order.
typedef struct {
  uint32_t most, levels, count;
  const uint8_t *places; // four bytes each, little-endian
} syntax_wanted;

// syntax_parse parses a text and returns its nodes in preorder, to be freed. It returns
// NULL where there are more than are wanted at most.
syntax_node *syntax_parse(const void *language, const char *text, uint32_t length, syntax_wanted wanted, uint32_t *nodes);
