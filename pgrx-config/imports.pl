#!/usr/bin/env perl
# Fails when files of a crate import each other, directly or around several corners, and prints the circle.
#
#   imports.pl DIRECTORY …      directories with the sources of one crate each
#
# An import is a `use` of, or a path to, a name that another file defines: `crate::…`, `super::…`, `self::…`. A name
# that a mod.rs only re-exports (`pub use`) counts as an import of the file it comes from. Imports between a mod.rs and
# the files of its own folder do not count.
use strict;
use warnings;

# "a::{b, c::{d, e}}" becomes a::b, a::c::d, a::c::e.
sub expand {
    my ($path) = @_;
    return $path unless $path =~ /^(.*?)\{(.*)\}$/s;
    my ($head, $body, $depth, @parts) = ($1, $2, 0, '');
    for my $char (split //, $body) {
        $depth += { '{' => 1, '}' => -1 }->{$char} // 0;
        if ($char eq ',' && !$depth) { push @parts, '' } else { $parts[-1] .= $char }
    }
    return map { expand($head . $_) } grep { length } @parts;
}

my $circles = 0;
for my $root (@ARGV) {
    my (%text, %file_of, %handed_on);
    for my $file (split /\n/, `find '$root' -name '*.rs'`) {
        open my $in, '<', $file or die "$file: $!";
        my $source = join '', grep { !m{^\s*//} } <$in>;
        $source =~ s/#\[cfg\(test\)\]\s*mod \w+ \{.*\z//s;    # unit tests stand at the end
        my $module = $file =~ s{^\Q$root\E/}{}r =~ s{\.rs$}{}r =~ s{(^|/)(mod|lib)$}{}r =~ s{/}{::}gr;
        ($text{$file}, $file_of{$module}) = ($source, $file);
    }
    my %module_of = reverse %file_of;
    my (%paths);
    for my $file (keys %text) {
        my $here = $module_of{$file};
        my $absolute = sub {
            my ($path) = @_;
            my $base = $here;
            return $path if $path =~ s/^crate(::|$)//;
            $path =~ s/^self:://;
            while ($path =~ s/^super(::|$)//) { $base =~ s/(^|::)\w+$// }
            return $base eq '' ? $path : "${base}::$path";
        };
        my $children = join '|', map { s/.*:://r } grep { /^\Q$here\E(::)?\w+$/ } keys %file_of;
        while ($text{$file} =~ /\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);/g) {
            my ($public, $path) = ($1, $2 =~ s/\s+//gr);
            for my $one (expand($path)) {
                $one =~ s/as\w+$// if $path =~ /as/ && $one =~ /[a-z_0-9]as[A-Z_]/;
                next unless $one =~ /^(crate|super|self)::/ || ($children && $one =~ /^($children)(::|$)/);
                my $target = $absolute->($one =~ s/::self$//r);
                push @{$paths{$file}}, $target;
                $handed_on{"${here}::" . ($one =~ s/.*:://r)} = $target if $public;
            }
        }
        push @{$paths{$file}}, $absolute->($_) for $text{$file} =~ /\b((?:crate|super|self)(?:::\w+)+)/g;
    }
    my %imports;
    for my $file (keys %paths) {
        for my $path (@{$paths{$file}}) {
            $path =~ s/^:://;
            for (1 .. 5) { $path = $handed_on{$path} // last }
            $path =~ s/(^|::)[^:]*$// while !$file_of{$path} && $path ne '';
            my $target = $file_of{$path} // next;
            my ($mine, $other) = map { s{(/mod|/lib)?\.rs$}{}r } $file, $target;
            next if $target eq $file || index($file, "$other/") == 0 || index($target, "$mine/") == 0;
            $imports{$file}{$target} = 1;
        }
    }
    my (%state, @trail);
    my $visit;
    $visit = sub {
        my ($file) = @_;
        $state{$file} = 'open';
        push @trail, $file;
        for my $target (sort keys %{$imports{$file}}) {
            if (!$state{$target}) { $visit->($target) }
            elsif ($state{$target} eq 'open') {
                my @circle = @trail;
                shift @circle while $circle[0] ne $target;
                print STDERR 'files import each other: ', join(' -> ', @circle, $target), "\n";
                $circles++;
            }
        }
        pop @trail;
        $state{$file} = 'done';
    };
    $state{$_} or $visit->($_) for sort keys %imports;
}
exit($circles ? 1 : 0);
