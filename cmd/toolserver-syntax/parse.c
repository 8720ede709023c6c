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

// flatten writes the nodes of a tree, one after another. Trees may be deep: it does not call itself.
static syntax_node *flatten(const TSTree *tree, uint32_t most, uint32_t *nodes) {
  uint32_t room = 4096, n = 0, depth = 0, deepest = 256;
  syntax_node *list = malloc(room * sizeof *list);
  uint32_t *open = malloc(deepest * sizeof *open); // nodes whose size is not known yet
  TSTreeCursor cursor = ts_tree_cursor_new(ts_tree_root_node(tree));
  while (list && open) {
    TSNode node = ts_tree_cursor_current_node(&cursor);
    if (n == most) { free(list); list = NULL; break; }
    if (n == room) {
      syntax_node *more = realloc(list, (room *= 2) * sizeof *list);
      if (!more) { free(list); list = NULL; break; }
      list = more;
    }
    list[n] = (syntax_node){
      .start = ts_node_start_byte(node), .end = ts_node_end_byte(node), .size = 1, .kind = ts_node_symbol(node),
      .field = (uint8_t)ts_tree_cursor_current_field_id(&cursor),
      .flags = (ts_node_is_named(node) ? SYNTAX_NAMED : 0) | (ts_node_is_extra(node) ? SYNTAX_EXTRA : 0) |
               (ts_node_is_error(node) ? SYNTAX_ERROR : 0) | (ts_node_is_missing(node) ? SYNTAX_MISSING : 0),
    };
    n++;
    if (ts_tree_cursor_goto_first_child(&cursor)) {
      if (depth == deepest) {
        uint32_t *more = realloc(open, (deepest *= 2) * sizeof *open);
        if (!more) { free(list); list = NULL; break; }
        open = more;
      }
      open[depth++] = n - 1;
      continue;
    }
    while (!ts_tree_cursor_goto_next_sibling(&cursor)) {
      if (depth == 0) goto done;
      ts_tree_cursor_goto_parent(&cursor);
      depth--;
      list[open[depth]].size = n - open[depth];
    }
  }
done:
  ts_tree_cursor_delete(&cursor);
  free(open);
  *nodes = n;
  return list;
}

syntax_node *syntax_parse(const void *language, const char *text, uint32_t length, uint32_t most, uint32_t *nodes) {
  static TSParser *parser;
  if (!parser) parser = ts_parser_new();
  ts_parser_reset(parser);
  *nodes = 0;
  if (!ts_parser_set_language(parser, language)) return NULL;
  TSTree *tree = ts_parser_parse_string(parser, NULL, text, length);
  if (!tree) return NULL;
  syntax_node *list = flatten(tree, most, nodes);
  ts_tree_delete(tree);
  return list;
}
