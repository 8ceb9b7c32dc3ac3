import type { Page } from "playwright-core";

/** Logs in at the page's form, as a person does. */
export async function logIn(page: Page, name: string, password: string): Promise<void> {
  await page.getByLabel("Name").fill(name);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("button", { name: "Log out" }).waitFor();
}
