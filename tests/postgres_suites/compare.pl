#!/usr/bin/env perl
# Compares what psql or isolationtester printed in two runs of a suite, and prints the differences. Fails if there are
# any.
#
#   compare.pl DIRECTORY DIRECTORY      directories with the outputs of the tests, of the same names
#
# The rows of each query are sorted, so the order that ORDER BY asks for is not compared. Left out are plans, lines with
# names of skip indexes except for errors, lines that tell of a failed parallel worker, and notices, because the number
# of notices that a function prints depends on the plan. If only one run met a deadlock in a test, the test is named and
# not compared: VACUUM FULL of a catalog can deadlock with a CREATE TABLE that creates many indexes.
use strict;
use warnings;

# Tests that are left out, and why they differ.
my %left_out = (
    advisory_lock   => 'lists locks, also those of sessions that summarize',
    event_trigger_login => 'counts logins, also those of sessions that summarize',
    explain         => 'prints plans in formats that this does not know',
    join_hash       => 'looks for hash joins in plans',
    limit           => 'moves cursors backwards, with ORDER BY and without SCROLL',
    mvcc            => 'expects a scan to remove dead rows that the bounds of values rule out',
    'partition-drop-index-locking' => 'lists locks',
    partition_prune => 'prints plans without a head',
    polymorphism    => 'collects values in the order of rows that are equal to the sort',
    psql            => 'shows rows that were found before an error',
    stats           => 'counts scans of a kind',
    sysviews        => 'lists settings',
    tuplesort       => 'shows the first of rows that are equal to the sort',
    window          => 'numbers rows that are equal to the sort',
    xmlmap          => 'moves a cursor backwards, with ORDER BY and without SCROLL',
);

# What a serializable transaction locks depends on what its plan reads, so another one of two is rolled back.
my $serializable = qr/^(multiple-row-versions|predicate-|read-only-anomaly|read-write-unique|serializable-parallel)/;

# The lines of an output, those of each result in order.
sub lines_of {
    my ($file) = @_;
    open my $in, '<', $file or die "$file: $!";
    chomp(my @lines = <$in>);
    s/\s+/ /g, s/^ | $//g, s/zskip_\d+/zskip/g for @lines;
    my @kept;
    for (my $i = 0; $i < @lines; $i++) {
        my $line = $lines[$i];
        if ($line =~ /^-{3,}(\+-+)*$/ && $i) {
            # Comments have lines of hyphens, too, but no number of rows before the next comment.
            my $end = $i + 1;
            $end++ while $end < @lines && $lines[$end] !~ /^(\(\d+ rows?\)$|--)/;
            if ($end < @lines && $lines[$end] !~ /^--/) {
                my @rows = @lines[$i + 1 .. $end - 1];
                my $is_plan = $lines[$i - 1] =~ /QUERY PLAN/ || grep { /\(actual rows=|\(cost=N/ } @rows;
                pop @kept if $is_plan;
                push @kept, $is_plan ? 'plan' : ('---', sort @rows, $lines[$end]);
                $i = $end;
                next;
            }
        }
        push @kept, $line;
    }
    my $is_left_out = qr/zskip|NOTICE:|^WARNING: did not get |^CONTEXT: parallel worker/;
    return grep { /^(ERROR|FATAL|PANIC):/ || !/$is_left_out/ } @kept;
}

my ($first, $second) = @ARGV;
my ($compared, $different, $deadlocked) = (0, 0, 0);
# One or two deadlocks are chance. More are a fault.
my $most_deadlocks = 2;
for my $file (sort map { s{.*/}{}r } glob "$first/*.out") {
    next if $left_out{ $file =~ s/\.out$//r } || $file =~ $serializable;
    die "$second has no $file\n" unless -e "$second/$file";
    my (%sorted, %deadlocks);
    for my $directory ($first, $second) {
        $sorted{$directory} = "$directory/$file.sorted";
        my @lines = lines_of("$directory/$file");
        $deadlocks{$directory} = grep { /deadlock detected/ } @lines;
        open my $out, '>', $sorted{$directory} or die "$sorted{$directory}: $!";
        print $out "$_\n" for @lines;
        close $out or die "$sorted{$directory}: $!";
    }
    if ($deadlocks{$first} != $deadlocks{$second}) {
        print "$file: not compared, because of a deadlock\n";
        $deadlocked++;
        next;
    }
    $compared++;
    next unless system 'diff', '-u', $sorted{$first}, $sorted{$second};
    $different++;
}
die "nothing to compare\n" unless $compared;
printf "%d tests compared, %d differ\n", $compared, $different;
exit($different || $deadlocked > $most_deadlocks ? 1 : 0);
