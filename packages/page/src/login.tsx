import { useEffect, useState } from "preact/hooks";
import { ask, post, UnauthorizedError } from "./ask.js";

interface Session {
  readonly name: string;
}

/** Returns the name of the user who is logged in (undefined while unknown, empty for nobody), and why it is unknown. */
export function useSession(): { readonly name: string | undefined; readonly failure: string } {
  const [session, setSession] = useState<{ name: string | undefined; failure: string }>({
    name: undefined,
    failure: "",
  });
  useEffect(() => {
    ask<Session>("/page/session").then(
      ({ name }) => setSession({ name, failure: "" }),
      // "Not authorized" is the director's text for a missing session; other messages are reasons to show.
      ({ message }: Error) => setSession({ name: "", failure: /^Not authorized/.test(message) ? "" : message }),
    );
  }, []);
  return session;
}

/** Asks for name and password, and reloads the page with the session. */
export function LoginForm({ failure: first }: { readonly failure: string }) {
  const [failure, setFailure] = useState(first);
  const [isAsking, setAsking] = useState(false);
  const logIn = async (form: HTMLFormElement): Promise<void> => {
    setAsking(true);
    setFailure("");
    try {
      await post("/page/login", Object.fromEntries(new FormData(form)));
      location.reload();
    } catch (error) {
      const { message } = error as Error;
      setFailure(/^Not authorized/.test(message) ? "The name or the password is wrong." : message);
      setAsking(false);
    }
  };
  return (
    <main class="login">
      <h1>diskmesh</h1>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void logIn(event.currentTarget);
        }}
      >
        <label>
          Name
          <input name="name" autocomplete="username" required autofocus />
        </label>
        <label>
          Password
          <input name="password" type="password" autocomplete="current-password" required />
        </label>
        {failure !== "" && (
          <p class="trouble" role="alert">
            {failure}
          </p>
        )}
        <div class="actions">
          <button type="submit" disabled={isAsking}>
            Log in
          </button>
        </div>
      </form>
    </main>
  );
}

/** Shows who is logged in, and ends the browser's session. */
export function LogOut({ name }: { name: string }) {
  const [failure, setFailure] = useState("");
  const logOut = async (): Promise<void> => {
    try {
      await post("/page/logout", {});
    } catch (error) {
      // UnauthorizedError means that the session had already ended.
      if (!(error instanceof UnauthorizedError))
        return setFailure(`You are still logged in: ${(error as Error).message}`);
    }
    location.reload();
  };
  return (
    <div class="session">
      <span id="user">{name}</span>
      {failure !== "" && (
        <span class="trouble" role="alert">
          {failure}
        </span>
      )}
      <button type="button" onClick={() => void logOut()}>
        Log out
      </button>
    </div>
  );
}
