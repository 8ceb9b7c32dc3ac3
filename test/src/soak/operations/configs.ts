import { exists, type Operation, persistently } from "../soak.js";

/** Stores a cloud config under its own name, reads it, compares it with the next version, and sometimes deletes it. */
export const configs: Operation = {
  name: "config: update, read, delete",
  workers: 1,
  async run(soak, { slot, round, random }) {
    const client = soak.fleet.clients.configs;
    const [type, name] = ["cloud", `soak-${slot}`];
    const content = `vm_types: [{name: soak-${slot}-${round}}]\n`;
    const update = () => client.updateConfig({ type, name, content });
    const { config: stored } = await persistently(`UpdateConfig ${name}`, update);
    const { config: read } = await persistently(`GetConfig ${name}`, () => client.getConfig({ type, name }));
    if (read?.content !== content || read.configId !== stored?.configId)
      soak.violations.add(
        `acknowledged is there: config ${stored?.configId} of ${name} was stored, not ${read?.configId}`,
      );
    await persistently("DiffConfig", () => client.diffConfig({ type, name, content: "vm_types: []\n" }));
    if (random.next() > 0.3) return;
    try {
      await persistently(`DeleteConfig ${name}`, () => client.deleteConfig({ type, name }));
    } catch (error) {
      // The answer to the deletion was lost, and the repeated call found nothing. The next read shows the result.
      if (!(error instanceof Error) || !/NotFound/.test(error.message)) throw error;
    }
    if (await exists(`GetConfig ${name}`, () => soak.fleet.mesh.clients.configs.getConfig({ type, name })))
      soak.violations.add(`acknowledged is there: config ${name} was deleted, and is there`);
  },
};
