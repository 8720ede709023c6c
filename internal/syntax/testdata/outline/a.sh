#!/bin/bash
X=1
# Says foo.
foo() {
  y=2
}
function bar { :; }
export Y=2
