-- Writes pairs of a pattern and a value that PostgreSQL says match, one a line: operator, pattern and value, the last
-- two as UTF-8 in hexadecimal. tests/postgres.rs reads them. Wanted: a UTF-8 database of a server with ICU.
--
--   psql -X -q -v patterns=1500 -v values=2 -v seed=0.5 -f vectors.sql > matches.tsv
--
-- patterns: how many of each kind; values: how many of each pattern are written, the longest.
\set QUIET on
\pset format unaligned
\pset tuples_only on
\pset fieldsep '\t'
set client_min_messages = warning;

create function pg_temp.pick(choices text[]) returns text language sql volatile as
  'select choices[1 + floor(random() * cardinality(choices))::int]';

-- A part of a value, or of a literal in a pattern.
create function pg_temp.snippet() returns text language sql volatile as $$
  select pg_temp.pick(array['a','b','c','ab','bc','abc','foo','bar','A','B','ABC','Foo','i','I','k','K','s','S',' ',' ',
    '-','_','1','12','.',E'\n','é','É','ß','ẞ',E'\u0131',E'\u0130',E'\u212A',E'\u017F',E'\u0307',E'\u0300','Ì','ì',
    'σ','ς','Σ','ж','Ж','日本','J','j','#','x','(','{','[',']','0','\','%','^','$'])
$$;

create function pg_temp.value() returns text language plpgsql volatile as $$
declare result text := '';
begin
  for i in 1 .. floor(random() * 7)::int loop result := result || pg_temp.snippet(); end loop;
  return result;
end $$;

create function pg_temp.quantifier() returns text language sql volatile as $$
  select case when random() < 0.75 then '' else
    pg_temp.pick(array['*','+','?','{2}','{0}','{1}','{0,1}','{0,2}','{1,2}','{2,}','{0,}','{1,}','*?','+?','??',
      '{1,2}?','{','{,','(?#c)*','(?#+)',' *','{ 2 }','{2 , 3}']) end
$$;

create function pg_temp.plain() returns text language sql volatile as $$
  select case when strpos('#({[]\^$.', s) > 0 and random() < 0.9 then '\' || s else s end from pg_temp.snippet() as s
$$;

create function pg_temp.expression(level int) returns text language plpgsql volatile as $$
declare
  result text := '';
  kind float;
  groups text[] := array['(', '(', '(?:', '(?:', '(?=', '(?!', '(?<=', '(?<!'];
begin
  for i in 1 .. 1 + floor(random() * 4)::int loop
    kind := random();
    result := result || case
      when kind < 0.5 then pg_temp.plain() || case when random() < 0.6 then pg_temp.plain() else '' end
      when kind < 0.58 then pg_temp.pick(array['.','\d','\w','\s','\S','\D','\W'])
      when kind < 0.66 then pg_temp.pick(array['^','$','\A','\Z','\m','\M','\y','\Y','^','$','[[:<:]]','[[:>:]]'])
      when kind < 0.75 then pg_temp.pick(array['[ab]','[a-c]','[^a]','[]a]','[^]]','[a-]','[-a]','[[.hyphen.]a]',
        '[[=a=]]','[[:alpha:]]','[[:alpha:]_]','[\d]','[\]a]','[a\x42]','[[]','[é]','[Kk]','[Aé]','[a-é]','[ıi]',
        '[[.].]a]','[a-ab]'])
      when kind < 0.82 then pg_temp.pick(array['\x41','\x61b','\u0061','\u00e9','\U00000062','\x0000062','\060',
        '\0601','\101','\1','\2','\12','\B','\e','\cA','\a','\n','\é','\-','\_','\x2028'])
      when kind < 0.96 and level > 0 then
        pg_temp.pick(groups) || pg_temp.expression(level - 1) || ')'
      else '' end || pg_temp.quantifier();
    if random() < 0.12 then result := result || '|'; end if;
  end loop;
  return result;
end $$;

create function pg_temp.regex() returns text language sql volatile as $$
  select case when random() < 0.8 then '' else
    pg_temp.pick(array['***:','***=','(?i)','(?c)','(?x)','(?n)','(?n)','(?w)','(?p)','(?q)','(?iq)','(?ix)','(?ic)',
      '***:(?i)','(?b)','(?e)','(?xn)','(?m)','(?qx)','(?s)']) end || pg_temp.expression(2)
$$;

create function pg_temp.like_pattern() returns text language plpgsql volatile as $$
declare result text := '';
begin
  for i in 1 .. 1 + floor(random() * 6)::int loop
    result := result || case when random() < 0.35 then pg_temp.pick(array['%','%','_','\','\%','\_','\\'])
                             else pg_temp.snippet() end;
  end loop;
  return result;
end $$;

-- The value and what collations make of it.
create function pg_temp.in_other_case(value text) returns setof text language plpgsql as $$
begin
  return next value;
  return next lower(value collate "und-x-icu");
  return next upper(value collate "und-x-icu");
  return next lower(value collate "lt-x-icu");
  return next lower(value collate "tr-x-icu");
  return next upper(value collate "tr-x-icu");
  return next replace(value, 'k', E'\u212A');
  return next replace(replace(upper(value collate "C"), 'I', E'I\u0307'), 'É', 'é');
end $$;

-- Does the value match? Null if the server does not take the pattern.
create function pg_temp.matches(operator text, pattern text, value text) returns boolean language plpgsql as $$
begin
  return case operator
    when '~' then value ~ pattern
    when '~ C' then value ~ (pattern collate "C")
    when '~* C' then value ~* (pattern collate "C")
    when '~* und' then value ~* (pattern collate "und-x-icu")
    when '~* tr' then value ~* (pattern collate "tr-x-icu")
    when '~* libc' then value ~* (pattern collate "C.utf8")
    when 'LIKE' then value like pattern
    when 'ILIKE C' then value ilike (pattern collate "C")
    when 'ILIKE und' then value ilike (pattern collate "und-x-icu")
    when 'ILIKE tr' then value ilike (pattern collate "tr-x-icu")
    when 'ILIKE lt' then value ilike (pattern collate "lt-x-icu")
    when 'ILIKE el' then value ilike (pattern collate "el-x-icu")
    when 'ILIKE libc' then value ilike (pattern collate "C.utf8")
  end;
exception when others then return null;
end $$;

select setseed(:seed) \g /dev/null
create temp table patterns as
  select pg_temp.pick(array['~','~','~ C','~* C','~* und','~* tr','~* libc']) as operator, pg_temp.regex() as pattern
  from generate_series(1, :patterns)
  union all
  select pg_temp.pick(array['LIKE','ILIKE C','ILIKE und','ILIKE tr','ILIKE lt','ILIKE el','ILIKE libc']),
    pg_temp.like_pattern()
  from generate_series(1, :patterns);
-- Values at random, and the patterns themselves: plain and in another case they often match what they are made of.
create temp table candidates as
  select distinct value from (
    select pg_temp.value() as value from generate_series(1, 300)
    union all select '' union all select 'abc foo bar' union all select 'ABC FOO BAR' union all select E'a\nfoo\nabc'
    union all select E'b\nab\nA') as chosen;
create temp table pairs as
  select p.operator, p.pattern, c.value
  from patterns as p cross join lateral (
    select value from candidates order by md5(value || p.pattern) limit 120) as c
  union all
  select operator, pattern, translate(changed, '%_', 'xy')
  from patterns
    cross join lateral (values (pattern), (replace(pattern, '\', '')),
      (regexp_replace(pattern, '[][(){}^$|?*+\\]|\(\?..?', '', 'g'))) as own(value)
    cross join lateral pg_temp.in_other_case(value) as changed;
create temp table matching as
  select operator, pattern, value,
    row_number() over (partition by operator, pattern order by length(value) desc, value) as number
  from (select distinct * from pairs where value !~ '^$' or random() < 0.1) as pairs
  where pg_temp.matches(operator, pattern, value);
select operator, encode(convert_to(pattern, 'UTF8'), 'hex'), encode(convert_to(value, 'UTF8'), 'hex')
from matching where number <= :values order by 1, 2, 3;
