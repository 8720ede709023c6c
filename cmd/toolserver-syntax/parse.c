// Copyright 2026 The toolserver Authors
// SPDX-License-Identifier: Apache-2.0

#include "parse.h"
#include <stdlib.h>

// What is used of tree_sitter/api.h. The library itself is linked by go-tree-sitter, which does not
// offer its header to other packages, and whose parser copies the text for every piece that is read.
typedef struct TSParser TSParser;
typedef struct TSTree TSTree;
typedef struct { uint32_t context[4]; const void *id; const TSTree *tree; } TSNode;
typedef struct { const void *tree, *id; uint32_t context[3]; } TSTreeCursor;

void ts_set_allocator(void *(*)(size_t), void *(*)(size_t, size_t), void *(*)(void *, size_t), void (*)(void *));
TSParser *ts_parser_new(void);
bool ts_parser_set_language(TSParser *, const void *);
TSTree *ts_parser_parse_string(TSParser *, const TSTree *, const char *, uint32_t);
void ts_parser_reset(TSParser *);
TSNode ts_tree_root_node(const TSTree *);
void ts_tree_delete(TSTree *);
TSTreeCursor ts_tree_cursor_new(TSNode);
void ts_tree_cursor_delete(TSTreeCursor *);
TSNode ts_tree_cursor_current_node(const TSTreeCursor *);
uint16_t ts_tree_cursor_current_field_id(const TSTreeCursor *);
bool ts_tree_cursor_goto_first_child(TSTreeCursor *);
bool ts_tree_cursor_goto_next_sibling(TSTreeCursor *);
bool ts_tree_cursor_goto_parent(TSTreeCursor *);
uint32_t ts_node_start_byte(TSNode);
uint32_t ts_node_end_byte(TSNode);
uint16_t ts_node_symbol(TSNode);
bool ts_node_is_named(TSNode);
bool ts_node_is_extra(TSNode);
bool ts_node_is_missing(TSNode);
bool ts_node_is_error(TSNode);
bool ts_node_has_error(TSNode);

// place is one of those that are wanted.
static uint32_t place(const syntax_wanted *wanted, uint32_t i) {
  const uint8_t *b = wanted->places + 4 * (size_t)i;
  return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

// has_place tells whether a part of the text has a place that is wanted.
static bool has_place(const syntax_wanted *wanted, uint32_t start, uint32_t end) {
  uint32_t low = 0, high = wanted->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (place(wanted, middle) < start) low = middle + 1; else high = middle;
  }
  return low < wanted->count && place(wanted, low) < end;
}

// A parent is a node whose size is not known yet.
typedef struct {
  uint32_t node;
  uint32_t below; // how many levels it is below one that has a place
} parent;

// flatten writes the nodes of a tree, one after another. Trees may be deep: it does not call itself.
static syntax_node *flatten(const TSTree *tree, const syntax_wanted *wanted, uint32_t *nodes) {
  uint32_t room = 4096, n = 0, depth = 0, deepest = 256;
  syntax_node *list = malloc(room * sizeof *list);
  parent *open = malloc(deepest * sizeof *open);
  TSTreeCursor cursor = ts_tree_cursor_new(ts_tree_root_node(tree));
  while (list && open) {
    TSNode node = ts_tree_cursor_current_node(&cursor);
    uint32_t start = ts_node_start_byte(node), end = ts_node_end_byte(node), below = 0;
    if (wanted->count && depth && !has_place(wanted, start, end)) below = open[depth - 1].below + 1;
    if (below <= wanted->levels) {
      if (n == wanted->most) { free(list); list = NULL; break; }
      if (n == room) {
        syntax_node *more = realloc(list, (room *= 2) * sizeof *list);
        if (!more) { free(list); list = NULL; break; }
        list = more;
      }
      list[n] = (syntax_node){
        .start = start, .end = end, .size = 1, .kind = ts_node_symbol(node), .field = (uint8_t)ts_tree_cursor_current_field_id(&cursor),
        .flags = (ts_node_is_named(node) ? SYNTAX_NAMED : 0) | (ts_node_is_extra(node) ? SYNTAX_EXTRA : 0) |
                 (ts_node_is_error(node) ? SYNTAX_ERROR : 0) | (ts_node_is_missing(node) ? SYNTAX_MISSING : 0) |
                 (n == 0 && ts_node_has_error(node) ? SYNTAX_FLAWED : 0),
      };
      n++;
      if (ts_tree_cursor_goto_first_child(&cursor)) {
        if (depth == deepest) {
          parent *more = realloc(open, (deepest *= 2) * sizeof *open);
          if (!more) { free(list); list = NULL; break; }
          open = more;
        }
        open[depth++] = (parent){n - 1, below};
        continue;
      }
    }
    while (!ts_tree_cursor_goto_next_sibling(&cursor)) {
      if (depth == 0) goto done;
      ts_tree_cursor_goto_parent(&cursor);
      depth--;
      list[open[depth].node].size = n - open[depth].node;
    }
  }
done:
  ts_tree_cursor_delete(&cursor);
  free(open);
  *nodes = n;
  return list;
}

syntax_node *syntax_parse(const void *language, const char *text, uint32_t length, syntax_wanted wanted, uint32_t *nodes) {
  static TSParser *parser;
  if (!parser) {
    ts_set_allocator(NULL, NULL, NULL, NULL); // C's own: the binding has set one that calls Go for every piece
    parser = ts_parser_new();
  }
  ts_parser_reset(parser);
  *nodes = 0;
  if (!ts_parser_set_language(parser, language)) return NULL;
  TSTree *tree = ts_parser_parse_string(parser, NULL, text, length);
  if (!tree) return NULL;
  syntax_node *list = flatten(tree, &wanted, nodes);
  ts_tree_delete(tree);
  return list;
}
