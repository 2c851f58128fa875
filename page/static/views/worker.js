// Asks the driver, and makes of its answers what is shown, beside the page's own thread.

import { ask } from "./ask.js";
import { digest } from "./heat.js";

const MAKES = { heat: digest };

onmessage = async ({ data: { id, url, as } }) => {
  try {
    const [told, arrays] = MAKES[as](await ask(url));
    postMessage({ id, told }, arrays);
  } catch (error) {
    postMessage({ id, error: { message: error.message, status: error.status } });
  }
};
