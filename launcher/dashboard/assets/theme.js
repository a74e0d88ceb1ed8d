// Set the colour theme before anything is painted: the one that the user chose, else the system's.
// A plain script, not a module, so that the page never flashes in the other theme.
(() => {
  const kKey = 'trainrun.theme';
  const root = document.documentElement;
  const system = matchMedia('(prefers-color-scheme: dark)');
  const chosen = () => {
    try {
      return localStorage.getItem(kKey);
    } catch {
      return null;  // storage is refused: the system's theme
    }
  };
  const apply = () => {
    const theme = chosen();
    root.dataset.theme = theme === 'light' || theme === 'dark' ? theme : system.matches ? 'dark' : 'light';
    document.dispatchEvent(new Event('themechange'));
  };
  system.addEventListener('change', apply);
  window.trainrunTheme = {
    toggle() {
      const next = root.dataset.theme === 'dark' ? 'light' : 'dark';
      try {
        localStorage.setItem(kKey, next);
      } catch {
        root.dataset.theme = next;
        document.dispatchEvent(new Event('themechange'));
        return;
      }
      apply();
    },
  };
  apply();
})();
