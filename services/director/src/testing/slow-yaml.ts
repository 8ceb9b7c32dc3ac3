/**
 * Texts that cost a YAML library disproportionate time, memory or stack, each generated for a size in bytes: one of each
 * construct. Some are valid YAML of excessive length.
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
  "nested block maps": nested,
  "compact explicit keys": (s) => rep("? ", s),
  "block keys": (s) => numbered((i) => `k${i}: 1\n`, s),
  "the same key": (s) => rep("a: 1\n", s),
  omap: (s) => `!!omap [${numbered((i) => `${B36(i)}: 1,`, s - 12)}]`,
  "billion laughs": (_s) => {
    let out = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n";
    for (let i = 1; i < 40; i++)
      out += `a${i}: &a${i} [${Array(9)
        .fill(`*a${i - 1}`)
        .join(",")}]\n`;
    return out;
  },
  "aliases of one long list": (s) => `a: &a [${rep("1,", s / 2)}]\nb: [${rep("*a ,", 396)}]`,
  "anchors then aliases": (s) =>
    `[${numbered((i) => `&${B36(i)} 1,`, s / 2)}${numbered((i) => `*${B36(i)} ,`, s / 2 - 2)}]`,
  "recursive alias": (_s) => "a: &a [*a, *a, *a]\n",
  "merge chain in YAML 1.1": (s) =>
    `%YAML 1.1\n---\na0: &a0 {k: 1}\n${numbered((i) => `a${i + 1}: &a${i + 1} {<<: *a${i}, k${i}: 1}\n`, s - 40)}`,
  "one long plain scalar": (s) => rep("x", s),
  "folded double quotes": (s) => `"${rep("x \n ", s - 2)}"`,
  "many block scalars": (s) => rep("- |\n x\n", s),
  digits: (s) => rep("9", s),
  "tag directives": (s) => `${numbered((i) => `%TAG !${i}! tag:x\n`, s - 6)}---\na\n`,
  documents: (s) => rep("---\n", s),
  "comments between items": (s) => rep("- x\n#\n", s),
  "control characters": (s) => rep("\u0000", s),
  "keys that are lists": (s) => `{${numbered((i) => `[${B36(i)}]: 1,`, s - 2)}}`,
  "missing commas": (s) => `[${rep("'a' ", s - 1)}`,
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
