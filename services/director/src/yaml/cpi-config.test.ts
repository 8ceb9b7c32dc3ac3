import { InvalidArgumentError } from "@diskmesh/domain";
import { expect } from "chai";
import { parseCpiConfig } from "./cpi-config.js";
import { storedLimits } from "./document.js";

const NEW = { what: "cpi-config `default`", sizeBytes: 10_000 };
const configWith = (user: string) => `cpis:
- name: openstack-left
  type: openstack
  properties:
    auth_url: https://left.example
    username: ${user}
`;

describe("cpi-configs in YAML", () => {
  it("a variable that the CLI has not set -> refused by its place, with the remedy; set, or stored before -> read", () => {
    expect(() => parseCpiConfig(configWith("hush-((openstack-left-user))"), NEW)).to.throw(
      InvalidArgumentError,
      /^(?!.*hush).*line 6: cpis\.0\.properties\.username: contains a \(\(variable\)\).* by --var of the bosh CLI$/,
    );
    const userOf = (text: string, limits = NEW) => parseCpiConfig(text, limits)[0]?.properties.username;
    expect(userOf(configWith("left"))).to.equal("left");
    const former = configWith("((openstack-left-user))");
    expect(userOf(former, storedLimits("cpi-config"))).to.equal("((openstack-left-user))");
  });
});
