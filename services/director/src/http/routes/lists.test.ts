import type { Readable } from "node:stream";
import { expect } from "chai";
import type { HttpCall, Route } from "../route.js";
import { cleanUpRoutes } from "./clean-up-routes.js";
import { deploymentRoutes } from "./deployment-routes.js";
import { instanceRoutes } from "./instance-routes.js";
import { otherRoutes } from "./other-routes.js";
import { upkeepRoutes } from "./upkeep-routes.js";

const COUNT = 10_000;
const PAGE_SIZE = 100;
/** In characters: more than a page, and far less than a whole list. */
const MAX_PIECE_LENGTH = 100_000;

const many = <Item>(make: (index: number) => Item): Item[] => Array.from({ length: COUNT }, (_, index) => make(index));
const deployments = many((index) => ({
  name: `d${index}`,
  teams: [],
  manifest: "",
  deleting: false,
  checkedByTaskId: 0,
}));
const instances = many((index) => ({
  ...{ instanceId: `i${index}`, agentId: `a${index}`, vmCid: `vm${index}`, group: "db", index, az: "z1" },
  ...{ deployment: "d0", ips: { private: `10.0.0.${index}` }, networks: {}, leaving: false, stemcell: "" },
}));
const orphans = many((index) => ({
  ...{ diskId: `o${index}`, diskCid: `disk-${index}`, deployment: "d0", group: "db", instanceId: "i", az: "z1" },
  ...{ sizeMib: 100, cpi: "", cloudProperties: {}, orphanedAtMs: 1, state: "detached", metadata: null },
}));
const possibleOrphans = many((index) => ({
  ...{ token: `t${index}`, kind: "vm", cid: `vm-${index}`, cpi: "", az: "z1", deployment: "d0", madeFor: "db/i" },
  ...{ taskId: 1, reason: "", sinceMs: 1 },
}));
const locks = many((index) => ({
  type: "disk",
  resource: `disk-${index}`,
  deadlineMs: 1,
  taskId: index,
  waitingTaskIds: [],
}));

/** Returns a fake director with very long lists that counts the requested pages. */
function crowded() {
  let pages = 0;
  const pagesOf =
    <Item>(all: readonly Item[], keyOf: (item: Item) => string) =>
    (from?: { readonly after?: string | undefined }) => {
      if (from !== undefined) pages += 1;
      return all.slice(all.findIndex((each) => keyOf(each) === from?.after) + 1);
    };
  const tables = {
    deployments: { entries: pagesOf(deployments, ({ name }) => name), get: () => deployments[0], has: () => true },
    instances: { by: (_index: string, deployment: string) => (deployment === "d0" ? instances : []) },
    persistentDisks: { entries: pagesOf(orphans, ({ diskId }) => diskId) },
    possibleOrphans: { entries: () => possibleOrphans },
    stemcells: { entries: () => [] },
    configs: { entries: () => [] },
  };
  const http = {
    context: {
      tablet: { read: async (look: (all: object) => unknown) => look(tables) },
      locks: { list: () => locks },
    },
    call: { identity: { role: "operator", name: "" } },
    query: new URLSearchParams("remove_all=true"),
    may: () => true,
    param: () => "d0",
  } as unknown as HttpCall;
  return { http, pages: () => pages };
}

describe("lists of ten thousand", () => {
  for (const [routes, path, isPaged] of [
    [deploymentRoutes, "/deployments", true],
    [upkeepRoutes, "/disks", true],
    [upkeepRoutes, "/orphaned_vms", false],
    [instanceRoutes, "/deployments/:deployment/vms", false],
    [instanceRoutes, "/deployments/:deployment/instances", false],
    [otherRoutes, "/locks", false],
    [cleanUpRoutes, "/cleanup/dryrun", false],
  ] as readonly (readonly [readonly Route[], string, boolean])[])
    it(`GET ${path} -> streamed in small pieces`, async () => {
      const { http, pages } = crowded();
      const route = routes.find((each) => each.method === "GET" && each.path === path);
      const { body } = (await route?.serve(http)) ?? {};
      expect(pages()).to.equal(isPaged ? 1 : 0);
      const pieces: string[] = [];
      for await (const piece of body as Readable) pieces.push(String(piece));
      expect(Math.max(...pieces.map(({ length }) => length))).to.be.below(MAX_PIECE_LENGTH);
      const answer = JSON.parse(pieces.join("")) as readonly object[] | { readonly orphaned_disks: readonly object[] };
      expect("orphaned_disks" in answer ? answer.orphaned_disks : answer).to.have.length(COUNT);
      expect(pages()).to.equal(isPaged ? COUNT / PAGE_SIZE : 0);
    });
});
