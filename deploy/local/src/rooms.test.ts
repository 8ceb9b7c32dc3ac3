import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";

const repository = fileURLToPath(new URL("../../..", import.meta.url));

/**
 * Folders of each package, lowest layer first: a file may import from its own and lower layers. Files beside the
 * folders come last.
 */
const ROOMS: Readonly<Record<string, string>> = {
  "services/director/src": `store config audit specs locks tasks yaml configs cpi agents instances
    disks disks/dynamic disks/persistent vms deployments health instance-logs stemcells vendor-methods explain
    logins bosh-registry page http http/routes .`,
  "services/disk-registry/src": `model/store model/copies model/events model/identity model/devices model/disks model/hosts model/joins model/rebuild model/explain
    store config metrics requests agents rebuild workers calls handlers/hosts handlers/devices handlers/disks handlers/joins handlers joins .`,
  "services/disk-agent/src": `model/copies model base host cache kernel files devices labels orders drivers parts mirror nbd engines
    remote exports mbus calls workers handlers joins commands .`,
  "packages/tablet/src": "documents storage backup examine embedded embedded/events mongo .",
  "packages/rpc/src": "errors call reflection server client .",
  "packages/service/src": "time health config telemetry serving .",
};

/** Files of the director that must not perform I/O, by folder. */
const PURE: Readonly<Record<string, string>> = {
  store:
    "agent-authority agent-health bosh-registry-settings config cpi-call deleted-disk deployment director-event disk ended-session instance json link-key node-error owed-removal persistent-disk possible-orphan problem resurrection-switch schema scope snapshot stemcell task vendor-call",
  config: "time-limits",
  audit: "director-event",
  specs:
    "agent-settings cloud-config cpi-choice cpi-config instance-group ip named resurrection-rule stemcell subnets update-block",
  locks: "locks",
  tasks: "bosh-codes task task-event worker-quotas",
  cpi: "cpi-call possible-orphan",
  agents: "agent-authorities agent-health agent-key agent-report",
  instances: "apply-spec bosh-instance instance lifecycle recorded-deployments scope vm-change vm-spec",
  disks: "disk-kind owed-removal",
  "disks/dynamic": "decisions disk",
  "disks/persistent": "persistent-disk snapshot",
  vms: "bosh-registry-settings networks",
  deployments: "deployment manifest-check placement static-ips waves",
  health: "problem resurrection resurrection-switch scan",
  stemcells: "surplus",
  "vendor-methods": "vendor-method",
  explain: "cause explain explain-vm",
};
const PURE_PACKAGES = ["@diskmesh/domain", "@diskmesh/cpi", "@diskmesh/tablet"];
const IMPURE =
  /\b(await|async|Promise|Date|performance|setTimeout|setInterval|setImmediate|queueMicrotask|process|crypto|fetch|console|globalThis|global|require)\b(?!\??:)|Math\.random|\bimport[.(]/;

/** Returns the imports of a file: packages by name, and files below `source` as relative paths without extension. */
function importsOf(source: string, file: string): readonly string[] {
  const text = readFileSync(join(repository, source, file), "utf8");
  return [...text.matchAll(/ from "([^"]+)"/g)].map(([, name = ""]) =>
    name.startsWith(".") ? `./${join(dirname(file), name).replace(/\.js$/, "")}` : name,
  );
}

function filesIn(source: string): readonly string[] {
  const all = readdirSync(join(repository, source), { recursive: true, encoding: "utf8" });
  return all.filter(
    (file) =>
      /\.tsx?$/.test(file) && !/\.test\.ts$|(^|\/)(testing|contract|simulation|generated)\/|^sample-/.test(file),
  );
}

const { workspaces } = JSON.parse(readFileSync(join(repository, "package.json"), "utf8")) as { workspaces: string[] };
const WORKSPACES = workspaces
  .flatMap((pattern) => {
    const parent = dirname(pattern);
    return pattern.endsWith("/*") ? readdirSync(join(repository, parent)).map((name) => join(parent, name)) : pattern;
  })
  .map((workspace) => `${workspace}/src`)
  .filter((source) => existsSync(join(repository, source)));
/** Folders and files that are larger than others may become. */
const LARGE = `test/src/sim packages/tablet/src/tablet.ts packages/tablet/src/mongo/log.ts
  services/director/src/cpi/cpi-calls.ts services/director/src/disks/persistent/persistent-disk-steps.ts
  services/disk-registry/src/model/store/schema.ts`.split(/\s+/);
const MAX_FILES = 30;
const MAX_LINES = 400;
const MAX_CONTEXT_FIELDS = 12;
/** Contexts that have more fields than others may, with the number of their fields. */
const WIDE: Readonly<Record<string, readonly string[]>> = {
  "services/director/src": ["Context 25", "JobContext 15"],
  "services/disk-registry/src": ["ChangeContext 22", "Context 21"],
};

/** Returns the names of the fields of each context of a workspace, inherited ones included. */
function contextFields(source: string): ReadonlyMap<string, ReadonlySet<string>> {
  const text = filesIn(source)
    .map((file) => readFileSync(join(repository, source, file), "utf8"))
    .join("\n");
  const declared = new Map<string, { readonly head: string; readonly body: string }>();
  for (const [, name = "", head = "", body = ""] of text.matchAll(/interface (\w*Context)\b([^{]*)\{\n([\s\S]*?)^\}/gm))
    declared.set(name, { head, body });
  for (const [, name = "", head = ""] of text.matchAll(/^(?:export )?type (\w*Context) =([^;]*);/gm))
    declared.set(name, { head, body: "" });
  const fieldsOf = (name: string): ReadonlySet<string> => {
    const { head, body } = declared.get(name) ?? { head: "", body: "" };
    const picked = [...head.matchAll(/\bPick<\s*\w+,([^>]*)>/g)].flatMap(([, keys = ""]) => keys.match(/\w+/g) ?? []);
    const own = [...body.matchAll(/^ {2}(?:readonly )?(\w+)\??:/gm)].map(([, field = ""]) => field);
    const parents = head.replace(/\bPick<[^>]*>/g, "").match(/\b\w*Context\b/g) ?? [];
    return new Set([...picked, ...own, ...parents.flatMap((parent) => [...fieldsOf(parent)])]);
  };
  return new Map([...declared.keys()].map((name) => [name, fieldsOf(name)]));
}

/** Returns the folders that each folder imports from. */
function importedFolders(source: string): ReadonlyMap<string, ReadonlySet<string>> {
  const found = new Map<string, Set<string>>();
  for (const file of filesIn(source)) {
    const from = found.get(dirname(file)) ?? new Set();
    found.set(dirname(file), from);
    for (const name of importsOf(source, file)) if (name.startsWith(".")) from.add(dirname(name.slice("./".length)));
    from.delete(dirname(file));
  }
  return found;
}

/** Returns the folders that import from one another, directly or not. */
function circle(folders: ReadonlyMap<string, ReadonlySet<string>>): readonly string[] {
  const left = new Map(folders);
  for (let before = -1; before !== left.size; ) {
    before = left.size;
    for (const [folder, imported] of left) if (![...imported].some((each) => left.has(each))) left.delete(folder);
  }
  return [...left.keys()].filter((folder) => [...left.values()].some((imported) => imported.has(folder)));
}

describe("every workspace", () => {
  for (const source of WORKSPACES) {
    it(`${source}: no folders import one another in a circle`, () => {
      expect(circle(importedFolders(source))).to.deep.equal([]);
    });

    it(`${source}: a file has at most ${MAX_LINES} lines`, () => {
      const long = filesIn(source)
        .map((file) => join(source, file))
        .filter((file) => readFileSync(join(repository, file), "utf8").split("\n").length - 1 > MAX_LINES);
      const known = LARGE.filter((file) => file.startsWith(`${source}/`) && file.endsWith(".ts"));
      expect(long.sort()).to.deep.equal(known.sort());
    });

    it(`${source}: a folder has at most ${MAX_FILES} files, a context at most ${MAX_CONTEXT_FIELDS} fields`, () => {
      const counts = new Map<string, number>();
      for (const file of filesIn(source)) counts.set(dirname(file), (counts.get(dirname(file)) ?? 0) + 1);
      const full = [...counts].filter(([folder, count]) => count > MAX_FILES && !LARGE.includes(join(source, folder)));
      expect(full).to.deep.equal([]);
      const wide = [...contextFields(source)].map(([name, { size }]) => `${name} ${size}`);
      expect(wide.filter((each) => Number(each.split(" ")[1]) > MAX_CONTEXT_FIELDS).sort()).to.deep.equal(
        WIDE[source] ?? [],
      );
    });
  }
});

describe("the folders' order", () => {
  for (const [source, list] of Object.entries(ROOMS))
    it(`${source}: a folder imports only itself and earlier folders`, () => {
      const rooms = list.split(/\s+/).map((room) => (room === "." ? room : `./${room}`));
      const rankOf = (file: string) => rooms.indexOf(dirname(file));
      const files = filesIn(source).map((file) => `./${file}`);
      const strays = files.filter((file) => rankOf(file) < 0).map((file) => `${file} is in no room of the list`);
      const climbs = files.flatMap((file) =>
        importsOf(source, file)
          .filter((name) => name.startsWith(".") && rankOf(name) > rankOf(file))
          .map((name) => `${file} imports ${name}`),
      );
      expect([...strays, ...climbs].join("\n")).to.equal("");
    });

  it("pure files import pure files, and neither await nor do I/O", () => {
    const source = "services/director/src";
    const pure = new Set(
      Object.entries(PURE).flatMap(([room, names]) => names.split(" ").map((name) => `./${room}/${name}`)),
    );
    const impure = [...pure].flatMap((file) => {
      const code = readFileSync(join(repository, source, `${file}.ts`), "utf8")
        .replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, "")
        .replace(/"(?:[^"\\\n]|\\.)*"/g, '""');
      const [found] = IMPURE.exec(code) ?? [];
      const imported = importsOf(source, `${file}.ts`).filter(
        (name) => !pure.has(name) && !PURE_PACKAGES.includes(name),
      );
      return [...(found ? [`${file} has ${found}`] : []), ...imported.map((name) => `${file} imports ${name}`)];
    });
    expect(impure.join("\n")).to.equal("");
  });
});
