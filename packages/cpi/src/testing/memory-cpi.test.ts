import { cpiContract } from "./cpi-contract.js";
import { MemoryCloud } from "./memory-cloud.js";
import { MemoryCpi, OPTIONAL_IN_MEMORY } from "./memory-cpi.js";

const tried = { az: "z1", optional: OPTIONAL_IN_MEMORY, close: async () => {} };

cpiContract("in memory", async () => ({ ...tried, cpi: new MemoryCpi() }));

cpiContract("in memory, one of several names, without tokens, on hosts", async () => {
  const cloud = new MemoryCloud(["host-1", "host-2"]);
  cloud.findsByToken = false;
  return { ...tried, cpi: new MemoryCpi(cloud, "east", ["orient"]), hasTokens: false };
});

cpiContract("in memory, of version 1", async () => {
  const cloud = new MemoryCloud();
  cloud.apiVersions.set("", 1);
  return { ...tried, cpi: new MemoryCpi(cloud), hasHints: false };
});
