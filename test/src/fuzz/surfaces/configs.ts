import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "@diskmesh/domain";
import type { Clients } from "../../mesh/clients.js";
import type { Random } from "../../random.js";
import { jsonText, spoilBytes, spoilJson, strangeText } from "../strange.js";
import { Counts, Find, type Surface } from "../surface.js";

/** A config that an operator may upload. */
export interface ConfigInput {
  readonly as: "diff" | "update" | "deploy";
  readonly type: "cloud" | "cpi" | "manifest";
  /** Text in base64, because it may not be valid UTF-8. */
  readonly content: string;
}

const CLOUD = {
  azs: [{ name: "z2", cpi: "fleet", cloud_properties: { a: 1 } }],
  vm_types: [{ name: "small", cloud_properties: { cpu: 1 } }],
  vm_extensions: [{ name: "public" }],
  disk_types: [{ name: "fuzz", disk_size: 1 }],
  networks: [
    {
      name: "fuzz",
      type: "manual",
      subnets: [
        {
          range: "10.0.0.0/24",
          gateway: "10.0.0.1",
          azs: ["z2"],
          static: ["10.0.0.5-10.0.0.9"],
          reserved: "10.0.0.2",
          dns: ["10.0.0.3"],
        },
      ],
    },
  ],
  compilation: { workers: 1 },
};
const CPI = {
  cpis: [
    {
      name: "fuzz",
      type: "fuzz",
      exec_path: "/nowhere",
      migrated_from: [{ name: "f" }],
      properties: { password: "p" },
    },
  ],
};
const MANIFEST = {
  name: "fuzz",
  tags: { a: "b" },
  stemcells: [{ alias: "s", os: "none", version: "1.1" }],
  instance_groups: [
    {
      name: "g",
      instances: 1,
      azs: ["z2"],
      stemcell: "s",
      networks: [{ name: "fuzz", static_ips: ["10.0.0.5"] }],
      env: { x: 1 },
      persistent_disk_type: "fuzz",
    },
  ],
  releases: [],
  update: { canaries: 1 },
};

const YAML = {
  cloud: "azs:\n- name: z2\n  cpi: fleet\ndisk_types:\n- &d {name: fuzz, disk_size: 1}\n- {<<: *d, name: other}\n",
  cpi: "cpis:\n- name: fuzz\n  type: fuzz\n  properties: {a: |\n    text\n  }\n",
  manifest:
    "name: fuzz\ninstance_groups:\n- name: g\n  instances: 1\n  azs: [z2]\n  env: &e {x: 1}\n- {name: h, instances: 0, azs: [z2], env: *e}\n",
};
const BITS = [
  "&a ",
  "*a",
  "<<: *a\n",
  "!!binary ",
  "!!set {a}",
  "!!omap ",
  "!<x> ",
  "? ",
  "- ",
  "-\t",
  ": ",
  "|2\n",
  ">-\n",
  "---\n",
  "...\n",
  "%YAML 1.2\n",
  "#",
  "'",
  '"',
  "\t",
  "\r",
  "{",
  "[",
  "}",
  "]",
  "~",
  "0o17",
  "1e400",
  ".nan",
  "2001-01-01",
  "\ufeff",
  "a: *a\n",
];
const REQUEST_BYTES_MAX = 1024 * 1024;

/** YAML uploads of an operator. They must not make other callers wait. */
export class ConfigsSurface implements Surface {
  readonly name = "configs";
  readonly atOnce = 2;
  readonly counts = new Counts();

  constructor(private readonly clients: Pick<Clients, "configs" | "deployments">) {}

  next(random: Random): Buffer {
    const type = random.pick(["cloud", "cpi", "manifest"] as const);
    const content = text(random, type).subarray(0, REQUEST_BYTES_MAX).toString("base64");
    const as = type === "manifest" ? "deploy" : random.chance(0.8) ? "diff" : "update";
    return Buffer.from(JSON.stringify({ as, type, content } satisfies ConfigInput));
  }

  async send(input: Buffer): Promise<void> {
    const { as, type, content: encoded } = JSON.parse(input.toString()) as ConfigInput;
    const content = Buffer.from(encoded, "base64").toString("utf8");
    try {
      if (as === "deploy") await this.clients.deployments.deploy({ manifest: content });
      else if (as === "diff") await this.clients.configs.diffConfig({ type, name: "fuzz", content });
      else await this.clients.configs.updateConfig({ type, name: "fuzz", content });
      this.counts.add(`${type} taken`);
    } catch (error) {
      const message = messageOf(error);
      if (/internal error; the server/.test(message))
        throw new Find(`${as} of a ${type} is answered as a bug: ${message}`);
      const { name } = error as Error;
      this.counts.add(name);
      if (name === "UnavailableError") await sleep(20);
    }
  }
}

function text(random: Random, type: ConfigInput["type"]): Buffer {
  if (random.chance(0.004)) return large(random);
  const sample = { cloud: CLOUD, cpi: CPI, manifest: MANIFEST }[type];
  if (random.chance(0.5)) return jsonText(random, spoilJson(random, sample));
  let yaml = YAML[type];
  for (let count = random.below(4); count > 0; count--) {
    const at = random.below(yaml.length + 1);
    const bit = random.chance(0.8) ? random.pick(BITS) : strangeText(random);
    yaml = yaml.slice(0, at) + bit.repeat(random.pick([1, 1, 1, 2, 100])) + yaml.slice(at);
  }
  return random.chance(0.3) ? spoilBytes(random, Buffer.from(yaml)) : Buffer.from(yaml);
}

/** Returns the text that costs the most CPU time for its size. */
function large(random: Random): Buffer {
  const bytes = random.pick([10_000, 100_000, REQUEST_BYTES_MAX]);
  const fill = random.pick([
    "[",
    "{",
    "- ",
    "a: &a\n",
    "? ",
    "&a [",
    "*a,",
    "'",
    "\n",
    "#\n",
    "[],",
    "!x ",
    "a: {",
    "|\n",
  ]);
  if (random.chance(0.6)) return Buffer.from(fill.repeat(Math.floor(bytes / fill.length)));
  let made = "";
  for (let index = 0; made.length < bytes; index++)
    made += random.chance(0.5) ? `k${index}: v\n` : `a${index}: &a${index} [*a${Math.max(0, index - 1)}]\n`;
  return Buffer.from(made);
}
