#!/usr/bin/perl
# Copyright 2026 The toolserver Authors
# SPDX-License-Identifier: Apache-2.0
#
# A driver that makes Perl a language of the tool repl, and an example for others:
#
#   sandbox:
#     read: [/etc/toolserver/repl.pl]
#     repl:
#     - language: perl
#       command: [perl, /etc/toolserver/repl.pl]
#
# The protocol. A driver reads requests from standard input, one after the other,
# until it ends:
#
#   NAME NUL CODE NUL
#
# It runs CODE, lets it write to standard output and standard error, and writes
# behind that, unbuffered, to both of them in turn:
#
#   standard error   NUL NAME S NUL
#   standard output  NUL NAME "v" NUL VALUE NUL NAME S NUL
#
# There are no spaces between them. NAME is that of the request; S is 0, or 1 if
# the code failed, which standard error says more of. VALUE is the value of the last
# expression, as text; it may be empty and is at most 1 MiB. SIGINT interrupts code
# that runs, and must not end the driver. What CODE reads is not its requests.
#
# This one keeps package variables; those of "my" end with their code.

use strict;
use warnings;

open(my $requests, '<&', \*STDIN) or die $!;
open(STDIN, '<', '/dev/null') or die $!;
open(my $out, '>&', \*STDOUT) or die $!;
open(my $err, '>&', \*STDERR) or die $!;
$_->autoflush(1) for $out, $err, \*STDOUT;
$SIG{INT} = 'IGNORE';

sub field {
    local $/ = "\0";
    my $text = <$requests>;
    exit unless defined $text && chomp $text;
    return $text;
}

sub evaluate {
    local $SIG{INT} = sub { die "interrupted\n" };
    no strict;
    no warnings;
    return eval "package main; no strict; \n#line 1 \"input\"\n$_[0]";
}

while (1) {
    my ($name, $code) = (field(), field());
    my $value = evaluate($code);
    my $failed = $@ ne '' ? 1 : 0;
    print $err $@ if $failed;
    $value = '' if $failed || !defined $value;
    print $err "\0$name$failed\0";
    print $out "\0${name}v\0" . substr($value, 0, 100_000) . "\0$name$failed\0";
}
