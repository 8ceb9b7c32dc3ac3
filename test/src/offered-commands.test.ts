import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { namedByCode, type Offered, offeredByCode, offeredByText, shapeOf, whyRefused } from "./cures/offered.js";
import { NOT_OFFERED, TYPED } from "./cures/typed.js";
import { offeredServices } from "./reference/roles.js";
import { repositoryFolder } from "./repository-folder.js";

/** RPCs that errors name to other services, not to operators. */
const OF_SERVICES = ["SetCpiConfig"];

const read = (file: string): string => readFileSync(join(repositoryFolder, file), "utf8");

describe("what errors, causes, the page and the documentation offer", () => {
  const commands = offeredByCode();

  for (const [where, offered] of [
    ["errors, causes and the page", commands],
    ["the documentation and the alerts", offeredByText()],
  ] as const)
    it(`the commands of ${where} exist, with these arguments and options`, async () => {
      expect(offered).not.to.be.empty;
      const wrong: string[] = [];
      for (const { place, words } of offered) {
        const why = await whyRefused(words);
        if (why !== undefined) wrong.push(`${place}: diskmesh ${words}: ${why}`);
      }
      expect(wrong).to.deep.equal([]);
    });

  it("each command of an error, a cause or the page is typed by a test", () => {
    const shapes = new Set(commands.map(({ words }) => shapeOf(words)));
    expect([...shapes].filter((shape) => !NOT_OFFERED.includes(shape)).sort()).to.deep.equal(Object.keys(TYPED).sort());
    const missing = Object.values(TYPED).filter(([file, text]) => !read(file).includes(text));
    expect(missing).to.deep.equal([]);
  });

  it("each RPC that a sentence names exists, and an operator may call it", () => {
    const roles = new Map([...offeredServices().values()].flat().flatMap((each) => [...each.roles]));
    const { rpcs } = namedByCode();
    const isOffered = ({ words }: Offered) => OF_SERVICES.includes(words) || roles.get(words)?.includes("operator");
    expect(rpcs.filter((each) => !isOffered(each))).to.deep.equal([]);
    expect(rpcs).not.to.be.empty;
  });

  it("each config key that a sentence names exists", () => {
    const page = read("docs/reference/configuration.md");
    const { keys } = namedByCode();
    expect(keys.filter(({ words }) => !page.includes(`**\`${words}\`**`))).to.deep.equal([]);
    expect(keys).not.to.be.empty;
  });
});
