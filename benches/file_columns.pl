#!/usr/bin/perl
# Looks at the beginning of a text file with rows and columns, and says how COPY reads it:
#
#   … | file_columns.pl NAME [yes|no]
#
# NAME is the file's name, for messages. With "yes" the first line has the columns' names, with "no" it does not;
# without either this is decided by the data. Prints, a line each: the separator, the quote and what stands for NULL as
# SQL literals, "true" or "false" for a line of names, the bytes to leave out at the beginning (a mark of UTF-8), and
# the columns' names, which are identifiers that need no quotes unless they are key words.
#
# Only what is built into Perl is used.
use strict;
use warnings;

my $SAMPLE = 1 << 20;    # bytes
my $ROWS   = 300;
my ($name, $header) = (@ARGV, '', '');
my %SQL = ("\t" => q(E'\\t'), ',' => q(','), ';' => q(';'), '|' => q('|'));

sub fail { print STDERR "$name: @_\n"; exit 1 }

binmode STDIN;
my $text = '';
while (length $text < $SAMPLE) {
    my $read = read STDIN, $text, $SAMPLE - length $text, length $text;
    fail("cannot be read: $!") if !defined $read;
    last if !$read;
}
my $is_whole = length $text < $SAMPLE;

my $mark = $text =~ s/^\xEF\xBB\xBF// ? 3 : 0;
fail('is UTF-16: convert it, for example by iconv -f UTF-16 -t UTF-8') if $text =~ /^(?:\xFF\xFE|\xFE\xFF)/;
fail('is no text: it has bytes that are zero') if $text =~ /\0/;
fail('is empty') if $text !~ /\S/;

# The rows of the sample, as lists of fields. A row that the sample cuts off is left out.
sub rows {
    my ($separator, $has_quotes) = @_;
    my $end = quotemeta $separator;
    my (@rows, @row);
    pos($text) = 0;
    while (@rows < $ROWS && pos($text) < length $text) {
        my $field = '';
        if ($has_quotes && $text =~ /\G"/gc) {
            $text =~ /\G((?>[^"]+|"")*)"/gc or last;    # its end is not in the sample
            ($field = $1) =~ s/""/"/g;
        }
        $text =~ /\G([^$end\r\n]*)/gc and $field .= $1;
        push @row, $field;
        next if $text =~ /\G$end/gc && (pos($text) < length $text || !push @row, '');
        my $is_complete = $text =~ /\G(?:\r\n|\n|\r)/gc || $is_whole;
        push @rows, [@row] if $is_complete;
        @row = ();
        last if !$is_complete;
    }
    return @rows;
}

# How many fields most rows have, and which share of the rows that is.
sub usual {
    my %count;
    $count{@$_}++ for @_;
    my ($most) = sort { $count{$b} <=> $count{$a} || $b <=> $a } keys %count;
    return (defined $most ? $most : 0, defined $most ? $count{$most} / @_ : 0);
}

# A quote character means quotes where a field begins with it.
my $has_quotes = $text =~ /(?:^|[\t,;|\r\n])"/;
my ($best, $best_share, $best_fields) = (',', 0, 1);
my @separators = $name =~ /\.tsv\b/i ? ("\t") : ("\t", ',', ';', '|');
for my $separator (@separators) {
    my ($fields, $share) = usual(rows($separator, $has_quotes));
    next if $fields < 2;
    ($best, $best_share, $best_fields) = ($separator, $share, $fields)
        if $share > $best_share + 0.01 || ($share > $best_share - 0.01 && $fields > $best_fields);
}
my @rows = rows($best, $has_quotes);
fail('has a quote that does not end in the first megabyte') if !@rows;
my @first = @{ shift @rows };

# A number, a date or a UUID: no name of a column.
sub is_value {
    return $_[0] =~ /^\s*(?:[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?|[0-9]{4}-[0-9]{2}-[0-9]{2}.*
                        |[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\s*$/x;
}

if ($header !~ /^(?:yes|no)$/) {
    $header = 'yes';
    my $empty = grep { $_ !~ /\S/ } @first;
    if (!@rows || $empty > 1 || grep { is_value($_) || length > 100 } @first) {
        $header = 'no';
    } else {
        # Names above values are told from texts by the values. Where all columns are texts, a name does not come again.
        my %name;
        my $is_value_below = 0;
        for my $column (0 .. $#first) {
            my @below = grep { defined && /\S/ } map { $_->[$column] } @rows;
            $is_value_below ||= @below && 2 * grep({ is_value($_) } @below) > @below;
            $name{$first[$column]}++;
            $header = 'no' if grep { $_ eq $first[$column] } @below;
        }
        $header = 'no' if !$is_value_below && (keys %name < @first || grep { !/^[A-Za-z_][\w .()\/-]*$/ } @first);
    }
}

my %taken = map { $_ => 1 } qw(ctid xmin xmax cmin cmax tableoid);
my @names;
for my $column (0 .. $#first) {
    my $text = $header eq 'yes' ? lc $first[$column] : '';
    $text =~ s/[^a-z0-9_]+/_/g;
    $text =~ s/^_+|_+$//g;
    $text = 'column_' . ($column + 1) if $text eq '';
    $text = "c_$text" if $text =~ /^[0-9]/;
    $text = substr $text, 0, 50;
    my $unique = $text;
    for (my $number = 2; $taken{$unique}; $number++) { $unique = "${text}_$number" }
    $taken{$unique} = 1;
    push @names, $unique;
}
my $quote = $has_quotes ? q('"') : q(E'\\x01');
# What PostgreSQL's own format has for NULL.
my $null = grep({ grep { $_ eq '\N' } @$_ } \@first, @rows) ? q('\N') : q('');
print "$_\n" for $SQL{$best}, $quote, $null, ($header eq 'yes' ? 'true' : 'false'), $mark, @names;
