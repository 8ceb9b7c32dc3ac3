import { expect } from "chai";
import { PORT_SPAN } from "./mesh/layout.js";
import { parseOptions } from "./options.js";

describe("options of npm start", () => {
  const parse = (args: string[], env: NodeJS.ProcessEnv = {}) => parseOptions(args, env, "/repo");

  it("has defaults for everything", () => {
    expect(parse([])).to.deep.equal({
      once: false,
      fresh: false,
      csi: false,
      help: false,
      stateFolder: "/repo/.diskmesh",
      basePort: 7000,
      engine: "auto",
    });
  });

  const accepted: [string, string[], NodeJS.ProcessEnv, object][] = [
    ["flags", ["--once", "--fresh", "--csi"], {}, { once: true, fresh: true, csi: true }],
    ["an engine", ["--engine", "kernel"], {}, { engine: "kernel" }],
    ["an engine from the environment", [], { DISKMESH_ENGINE: "node" }, { engine: "node" }],
    ["a base port", ["--base-port", "17000"], {}, { basePort: 17000 }],
    ["a base port from the environment", [], { DISKMESH_BASE_PORT: "17000" }, { basePort: 17000 }],
    [
      "the command line before the environment",
      ["--base-port=18000"],
      { DISKMESH_BASE_PORT: "1" },
      { basePort: 18000 },
    ],
    ["a state folder with spaces", ["--state", "/a b/c"], {}, { stateFolder: "/a b/c" }],
    ["a state folder from the environment", [], { DISKMESH_STATE: "/tmp/x" }, { stateFolder: "/tmp/x" }],
  ];
  for (const [what, args, env, expected] of accepted)
    it(`accepts ${what}`, () => expect(parse(args, env)).to.include(expected));

  const room = new RegExp(`from 1024 to ${65_535 - PORT_SPAN}`);
  const refused: [string, string[], NodeJS.ProcessEnv, RegExp][] = [
    ["an unknown option", ["--twice"], {}, /--twice[\s\S]*--once/],
    ["an argument", ["now"], {}, /now/],
    ["an unknown engine", ["--engine", "steam"], {}, /engine is "steam": it must be one of auto, kernel, node/],
    ["a base port that is no number", ["--base-port", "7010x"], {}, /base port is "7010x"/],
    ["a privileged base port", ["--base-port", "80"], {}, room],
    ["a base port with no room above it", [], { DISKMESH_BASE_PORT: "65500" }, room],
    ["an empty base port", ["--base-port", ""], {}, /base port is ""/],
  ];
  for (const [what, args, env, message] of refused)
    it(`refuses ${what}`, () => expect(() => parse(args, env)).to.throw(message));
});
