/**
 * Texts that cost a YAML library disproportionate time, memory or stack, each generated for a size in bytes. Some are
 * valid YAML of excessive length.
 */
const rep = (piece: string, size: number): string => piece.repeat(Math.max(1, Math.floor(size / piece.length)));

function numbered(make: (index: number) => string, size: number): string {
  const parts: string[] = [];
  let length = 0;
  for (let index = 0; ; index++) {
    const part = make(index);
    length += part.length;
    if (length > size) return parts.join("");
    parts.push(part);
  }
}

function nested(size: number): string {
  const lines: string[] = [];
  let length = 0;
  for (let depth = 0; ; depth++) {
    const line = `${" ".repeat(depth)}a:\n`;
    length += line.length;
    if (length > size) return lines.join("");
    lines.push(line);
  }
}

const B36 = (index: number): string => index.toString(36);

export const SLOW_YAML: Readonly<Record<string, (size: number) => string>> = {
  "open brackets": (s) => rep("[", s),
  "balanced brackets": (s) => rep("[", s / 2) + rep("]", s / 2),
  "balanced brackets under a key": (s) => `a: ${rep("[", s / 2 - 3)}${rep("]", s / 2 - 3)}`,
  "open braces": (s) => rep("{a: ", s),
  "braces balanced": (s) => rep("{a: ", (s * 4) / 5) + rep("}", s / 5),
  "explicit flow keys nested": (s) => rep("{? ", (s * 3) / 4) + rep("}", s / 4),
  "nested block maps": nested,
  "compact sequences": (s) => rep("- ", s),
  "compact explicit keys": (s) => rep("? ", s),
  "compact values": (s) => rep(": ", s),
  "keys in a row": (s) => rep("a: ", s),
  "block keys": (s) => numbered((i) => `k${i}: 1\n`, s),
  "block keys of one letter values null": (s) => numbered((i) => `${B36(i)}:\n`, s),
  "flow keys": (s) => `{${numbered((i) => `k${i}: 1,`, s - 2)}}`,
  "flow keys without values": (s) => `{${numbered((i) => `${B36(i)},`, s - 2)}}`,
  "the same key": (s) => rep("a: 1\n", s),
  "numeric keys": (s) => numbered((i) => `${(i * 7919 + 1) >>> 0}: 1\n`, s),
  set: (s) => `!!set {${numbered((i) => `${B36(i)},`, s - 10)}}`,
  omap: (s) => `!!omap [${numbered((i) => `${B36(i)}: 1,`, s - 12)}]`,
  pairs: (s) => `!!pairs [${numbered((i) => `${B36(i)}: 1,`, s - 12)}]`,
  "set in YAML 1.1": (s) => `%YAML 1.1\n---\n!!set {${numbered((i) => `${B36(i)},`, s - 30)}}`,
  "omap in YAML 1.1": (s) => `%YAML 1.1\n---\n!!omap [${numbered((i) => `${B36(i)}: 1,`, s - 30)}]`,
  "billion laughs": (_s) => {
    let out = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n";
    for (let i = 1; i < 40; i++)
      out += `a${i}: &a${i} [${Array(9)
        .fill(`*a${i - 1}`)
        .join(",")}]\n`;
    return out;
  },
  "aliases of one anchor": (s) => `a: &a [1]\nb: [${rep("*a,", s - 20)}]`,
  "aliases of one long list": (s) => `a: &a [${rep("1,", s / 2)}]\nb: [${rep("*a ,", 396)}]`,
  "anchors each aliased": (s) => `[${numbered((i) => `&${B36(i)} 1,*${B36(i)} ,`, s - 2)}]`,
  "anchors then aliases": (s) =>
    `[${numbered((i) => `&${B36(i)} 1,`, s / 2)}${numbered((i) => `*${B36(i)} ,`, s / 2 - 2)}]`,
  "anchors only": (s) => `[${numbered((i) => `&${B36(i)} 1,`, s - 2)}]`,
  "aliases as keys": (s) => `a: &a x\n${numbered((i) => `b${i}: {*a : 1}\n`, s - 10)}`,
  "long lists aliased a hundred times each": (s) =>
    numbered((i) => `a${i}: &a${i} [${"1,".repeat(2000)}]\nb${i}: [${`*a${i} ,`.repeat(99)}]\n`, s),
  "long text aliased": (s) => `a: &a "${rep("x", s / 2)}"\nb: [${rep("*a ,", 396)}]`,
  "recursive alias": (_s) => "a: &a [*a, *a, *a]\n",
  "merge chain in YAML 1.1": (s) =>
    `%YAML 1.1\n---\na0: &a0 {k: 1}\n${numbered((i) => `a${i + 1}: &a${i + 1} {<<: *a${i}, k${i}: 1}\n`, s - 40)}`,
  "merge chain": (s) => `a0: &a0 {k: 1}\n${numbered((i) => `a${i + 1}: &a${i + 1} {<<: *a${i}, k${i}: 1}\n`, s - 40)}`,
  "merge lists in YAML 1.1": (s) =>
    "%YAML 1.1\n---\na: &a {" +
    numbered((i) => `${B36(i)}: 1,`, s / 2) +
    "}\n" +
    rep("? x\n: {<<: [*a, *a, *a, *a, *a]}\n", s / 2 - 60),
  "one long plain scalar": (s) => rep("x", s),
  "plain scalar of lines": (s) => `a: ${rep("x\n ", s - 3)}`,
  "plain scalar of blank lines": (s) => `a: x${rep("\n", s - 6)} y`,
  words: (s) => rep("x ", s),
  "single quotes doubled": (s) => `'${rep("''", s - 2)}'`,
  "open single quote": (s) => `'${rep("''", s - 2)}`,
  "double quotes escaped": (s) => `"${rep('\\"', s - 2)}"`,
  backslashes: (s) => `"${rep("\\\\", s - 2)}"`,
  "hex escapes": (s) => `"${rep("\\x41", s - 2)}"`,
  "bad escapes": (s) => `"${rep("\\q", s - 2)}"`,
  "folded double quotes": (s) => `"${rep("x \n ", s - 2)}"`,
  "escaped newlines": (s) => `"${rep("\\\n", s - 2)}"`,
  "quoted scalar of spaces": (s) => `"${rep(" ", s - 4)}x"`,
  "quoted scalar of blank lines": (s) => `"${rep("\n", s - 4)}x"`,
  "open double quotes": (s) => rep('" ', s),
  "quoted items": (s) => `[${rep('"",', s - 2)}]`,
  "block scalar of one line": (s) => `a: |\n ${rep("x", s - 8)}`,
  "block scalar of lines": (s) => `a: |\n${rep(" x\n", s - 8)}`,
  "folded scalar of lines": (s) => `a: >\n${rep(" x\n", s - 8)}`,
  "folded scalar of indented lines": (s) => `a: >\n x\n${rep("  x\n", s - 8)}`,
  "block scalar of blank lines": (s) => `a: |+\n${rep("\n", s - 8)} x`,
  "block scalar of spaces": (s) => `a: |\n${rep(" ", s - 10)}\n x`,
  "many block scalars": (s) => rep("- |\n x\n", s),
  digits: (s) => rep("9", s),
  octal: (s) => `0o${rep("7", s - 2)}`,
  "hex number": (s) => `0x${rep("f", s - 2)}`,
  float: (s) => `1.${rep("9", s - 6)}e999`,
  sexagesimal: (s) => `%YAML 1.1\n---\n1${rep(":1", s - 30)}`,
  underscored: (s) => `%YAML 1.1\n---\n1${rep("_1", s - 30)}`,
  "int tag": (s) => `!!int ${rep("9", s - 6)}`,
  binary: (s) => `!!binary ${rep("AAAA", s - 12)}`,
  timestamps: (s) => rep("- 2001-12-14t21:59:43.10-05:00\n", s),
  "tags unknown": (s) => `[${rep("!a b,", s - 2)}]`,
  "tags on one node": (s) => `${rep("!a ", s)}x`,
  "anchors on one node": (s) => `${rep("&a ", s)}x`,
  "long tag": (s) => `!${rep("a", s - 3)} x`,
  "long verbatim tag": (s) => `!<${rep("a", s - 5)}> x`,
  "tag escapes": (s) => `!a${rep("%41", s - 5)} x`,
  "tag directives": (s) => `${numbered((i) => `%TAG !${i}! tag:x\n`, s - 6)}---\na\n`,
  directives: (s) => `${rep("%A\n", s - 6)}---\na`,
  "yaml directives": (s) => `${rep("%YAML 1.2\n", s - 6)}---\na`,
  documents: (s) => rep("---\n", s),
  "document ends": (s) => rep("...\n", s),
  "documents of a word": (s) => rep("--- a\n", s),
  comments: (s) => rep("#\n", s),
  "comment of one line": (s) => `#${rep("x", s - 1)}`,
  "comments before an item": (s) => `a:\n${rep(" #\n", s - 8)} - x`,
  "comments between items": (s) => rep("- x\n#\n", s),
  "comments in flow": (s) => `[a\n${rep(" #\n", s - 8)} ]`,
  "comments after the end": (s) => `a: 1\n${rep("#\n", s - 5)}`,
  "comments in a key's value": (s) => `a:\n${rep("#\n", s - 8)} b`,
  newlines: (s) => rep("\n", s),
  "carriage returns": (s) => rep("\r\n", s),
  "lone carriage returns": (s) => rep("\r", s),
  spaces: (s) => rep(" ", s),
  "lines of spaces": (s) => rep("  \n", s),
  tabs: (s) => rep("\t", s),
  "tab indents": (s) => `a:\n${rep("\t- x\n", s - 3)}`,
  "byte order marks": (s) => rep("\ufeff", s / 3),
  "control characters": (s) => rep("\u0000", s),
  "at signs": (s) => rep("@ ", s),
  "lines of at signs": (s) => rep("@\n", s),
  "percent lines": (s) => `a\n${rep("%\n", s - 2)}`,
  "closing brackets": (s) => rep("]", s),
  commas: (s) => `[${rep(",", s - 1)}`,
  "commas in a block": (s) => rep(",\n", s),
  colons: (s) => rep(":", s),
  dashes: (s) => rep("-", s),
  "dash lines": (s) => rep("-\n", s),
  "question marks": (s) => rep("?\n", s),
  "flow nulls": (s) => `[${rep("~,", s - 2)}]`,
  "flow pairs": (s) => `[${rep("a: ,", s - 2)}]`,
  "flow maps": (s) => `[${rep("{},", s - 2)}]`,
  "keys that are lists": (s) => `{${numbered((i) => `[${B36(i)}]: 1,`, s - 2)}}`,
  "a long list as a key": (s) => `{? [${rep("1,", s - 10)}] : 1}`,
  "maps of one long key each": (s) => rep("- {? [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]: 1}\n", s),
  "nested values in a row": (s) => rep("a: b: c\n", s),
  "bad indentation": (s) => numbered((i) => `${" ".repeat(i % 50)}a: b\n`, s),
  "sequences unindented": (s) => `a:\n${rep("- b\n", s - 3)}`,
  "missing commas": (s) => `[${rep("'a' ", s - 1)}`,
  "text with wide characters": (s) => rep("\u{1f600}", s / 4),
  "half surrogates escaped": (s) => `"${rep("\\ud800", s - 2)}"`,
};

/** Returns a typical manifest of about this size: many groups with jobs, and without instances. */
export function ordinaryManifest(size: number): string {
  const group = (index: number): string => {
    const jobs = [1, 2, 3, 4].map(
      (job) => `  - name: job-${job}
    release: router
    provides:
      link: {as: link-${index}-${job}, shared: true}
    properties:
      router:
        port: ${8_000 + job}
        enable_ssl: true
        tls_pem:
        - cert_chain: ((router_ssl.certificate))
          private_key: ((router_ssl.private_key))
        script: |
          #!/bin/bash
          set -e
          exec /var/vcap/packages/router/bin/router --listen 0.0.0.0:80${job}
      # as many as there are
      quota: 1024
`,
    );
    return `- name: group-${index}
  instances: 0
  azs: [z1, z2]
  networks: []
  env:
    bosh:
      password: "$6$rounds=1000$abcdefgh$0123456789012345678901234567890123456789012345678901234567890"
      remove_dev_tools: true
  jobs:
${jobs.join("")}`;
  };
  const head = `name: ordinary
releases: []
update: {canaries: 1, max_in_flight: 10, canary_watch_time: 1000-60000, update_watch_time: 1000-60000}
instance_groups:
`;
  return head + numbered(group, size - head.length);
}
