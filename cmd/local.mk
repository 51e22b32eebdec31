# cmd
