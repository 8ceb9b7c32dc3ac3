import { InvalidArgumentError } from "@diskmesh/domain";
import { catchAllMethod } from "@diskmesh/driver/host";
import { expect } from "chai";
import { chosenMethod, type VendorMethods } from "./vendor-method.js";

const OLDBOX = { ...catchAllMethod("node"), driver: "oldbox" };
const SMART = { ...OLDBOX, driver: "disk-health", name: "smart", httpMethods: ["GET"], async: false };
const ALONE: VendorMethods = { methods: [], catchAlls: [OLDBOX], driverCount: 1, starting: [] };
const BESIDE: VendorMethods = { ...ALONE, methods: [SMART], driverCount: 2 };

describe("the chosen vendor method", () => {
  it("is a catch-all for every name, where no other driver is configured", () => {
    expect(chosenMethod(ALONE, "anything", "POST")).to.include({ driver: "oldbox", name: "anything" });
  });

  it("is never a catch-all for a bare name, where there is another driver", () => {
    const typed = () => chosenMethod(BESIDE, "smrat", "POST");
    expect(typed).to.throw(InvalidArgumentError, "No handler for method smrat: a catch-all is called as oldbox.smrat");
    const down = { ...BESIDE, methods: [] };
    expect(() => chosenMethod(down, "smart", "POST")).to.throw(InvalidArgumentError, "No handler for method smart");
  });

  it("is a catch-all for a name with its driver, and the declared method otherwise", () => {
    expect(chosenMethod(BESIDE, "oldbox.smrat", "POST")).to.include({ driver: "oldbox", name: "smrat" });
    expect(chosenMethod(BESIDE, "smart", "GET")).to.include({ driver: "disk-health", name: "smart" });
    expect(() => chosenMethod(BESIDE, "disk-health.smrat", "POST")).to.throw(
      InvalidArgumentError,
      'No handler for method "disk-health.smrat"',
    );
  });
});
